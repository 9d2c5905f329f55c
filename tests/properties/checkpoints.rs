//! Nothing that is done to a covered record goes unseen, and nothing that is read as one breaks anything.

use std::fs;
use std::sync::LazyLock;

use copilot_bridge::audit::checkpoint::{self, Checkpoint, Signed, Stored, VerifierKey};
use copilot_bridge::audit::prove::{Proven, Record, check};
use copilot_bridge::audit::read;
use copilot_bridge::audit::record::v1::{Entry, Kind};
use copilot_bridge::audit::tree::Tree;
use copilot_bridge::audit::verify::cover::Cover;
use copilot_bridge::audit::verify::{Report, Verifier};
use copilot_bridge::audit::writer::Log;
use copilot_bridge::engine::bundle::AuditSettings;
use copilot_bridge::engine::decision::Effect;
use proptest::prelude::*;
use serde_json::json;

const LINES: u64 = 40;

/// A record that a checkpoint covers every few lines, and their notes.
struct Written {
    dir: tempfile::TempDir,
    text: Vec<u8>,
    made: Vec<Checkpoint>,
}

static WRITTEN: LazyLock<Written> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(dir.path(), None, AuditSettings::default()).unwrap();
    let mut made = Vec::new();
    for number in 1..=LINES {
        log.append(&entry(number), false).unwrap();
        if number % 7 == 0 || number == LINES {
            made.push(log.seal().unwrap().unwrap());
        }
    }
    let day = read::days(&dir.path().join("audit")).unwrap().remove(0);
    Written {
        text: fs::read(day).unwrap(),
        made,
        dir,
    }
});

fn entry(number: u64) -> Entry<'static> {
    Entry {
        kind: Kind::Session,
        event: "agent_stop",
        dialect: "copilot",
        session: Some("s"),
        call: None,
        agent: None,
        parent: None,
        depth: 0,
        entity: None,
        cwd: None,
        tool: None,
        args: None,
        args_redacted: None,
        data_keys: &[],
        requests: Vec::new(),
        redactions: Vec::new(),
        decision: Effect::Allow,
        reasons: &[],
        would_decide: Effect::Allow,
        obligations: Vec::new(),
        policy_digest: None,
        latency_us: number,
        error_class: None,
        trace: None,
        prompt: None,
        detail: json!({"summary": format!("number {number}")}),
    }
}

fn verify(text: &[u8]) -> Report {
    let files = checkpoint::files(&WRITTEN.dir.path().join("audit")).unwrap();
    let files = files.into_iter().map(Stored::at).collect();
    let cover = Cover::new(files, Vec::new(), None);
    let mut verifier = Verifier::new(true).covered_by(cover);
    verifier.file("day", None, text, &mut |_| ()).unwrap();
    verifier.finish(false)
}

fn lines() -> Vec<Vec<u8>> {
    let lines = WRITTEN.text.split_inclusive(|byte| *byte == b'\n');
    lines.map(<[u8]>::to_vec).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_text_breaks_what_reads_checkpoints(text in ".{0,300}", bytes in any::<Vec<u8>>()) {
        let key = VerifierKey::parse(&WRITTEN.made[0].key).unwrap();
        let old = Signed::parse(WRITTEN.made[0].note.as_bytes()).unwrap();
        for bytes in [text.as_bytes(), &bytes] {
            prop_assert!(Checkpoint::parse(bytes).is_err());
            prop_assert!(Signed::parse(bytes).is_err());
        }
        prop_assert!(VerifierKey::parse(&text).is_err());
        prop_assert!(check(&text, &key, Some(&old)).is_err());
        for head in ["c2sp.org/tlog-proof@v1\nextra ", "old 7\n"] {
            let text = format!("{head}{text}\n\n{}", WRITTEN.made[1].note);
            prop_assert!(check(&text, &key, Some(&old)).is_err());
        }
        let _ = Tree::decode(bytes.len() as u64, &text);
        verify(&bytes);
    }

    #[test]
    fn what_is_cut_out_and_put_elsewhere_is_found(
        from in 0..LINES as usize,
        count in 0..6_usize,
        to in 0..LINES as usize,
        keep in any::<bool>(),
    ) {
        let mut changed = lines();
        let end = (from + count).min(changed.len());
        let cut: Vec<Vec<u8>> = match keep {
            true => changed[from..end].to_vec(),
            false => changed.drain(from..end).collect(),
        };
        let to = to.min(changed.len());
        changed.splice(to..to, cut);
        let changed = changed.concat();
        let report = verify(&changed);
        prop_assert_eq!(report.problems == 0, changed == WRITTEN.text, "{:?}", report.findings);
    }

    #[test]
    fn what_is_written_over_is_found(at in any::<prop::sample::Index>(), with in any::<Vec<u8>>()) {
        let mut changed = WRITTEN.text.clone();
        let start = at.index(changed.len());
        let end = (start + with.len()).min(changed.len());
        changed.splice(start..end, with);
        let report = verify(&changed);
        prop_assert_eq!(report.problems == 0, changed == WRITTEN.text, "{:?}", report.findings);
    }

    #[test]
    fn every_line_is_proven_by_every_checkpoint_that_has_it(seq in 1..=LINES, by in 0..6_usize, since in 0..6_usize) {
        let made = &WRITTEN.made[by];
        let key = VerifierKey::parse(&made.key).unwrap();
        let record = Record {
            files: read::days(&WRITTEN.dir.path().join("audit")).unwrap(),
            before: Tree::default(),
        };
        match record.line(seq, made) {
            Ok(proof) => {
                let proven = check(&proof, &key, None);
                let Ok(Proven::Line { seq: found, .. }) = proven else {
                    return Err(TestCaseError::fail(format!("{proven:?}")));
                };
                prop_assert_eq!(found, seq);
            }
            Err(_) => prop_assert!(seq > made.tree.size()),
        }
        let old = Signed::parse(WRITTEN.made[since].note.as_bytes()).unwrap();
        match record.since(&old, made) {
            Ok(proof) => prop_assert_eq!(check(&proof, &key, Some(&old)), Ok(Proven::Since { size: old.size })),
            Err(_) => prop_assert!(since > by),
        }
    }
}
