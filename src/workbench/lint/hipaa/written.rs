//! Rows that the files answer.

use super::{Answer, Question, places, setting};
use crate::engine::bundle::{Mode, OnFailure};
use crate::engine::decision::Obligation;
use crate::policy::{Code, Problem};
use crate::workbench::lint::desk::Desk;
use crate::workbench::lint::rules::phi_packs_off;
use crate::workbench::scene::Scene;

pub(super) const ROWS: &[Question] = &[
    Question {
        id: "hipaa-01",
        text: "whoever has health information is named as an entity",
        basis: "R-003-01",
        answer: entities,
    },
    Question {
        id: "hipaa-02",
        text: "whoever is not known counts as having health information",
        basis: "R-003-35",
        answer: unknown_entity,
    },
    Question {
        id: "hipaa-03",
        text: "the rules for health information are on",
        basis: "R-003-38",
        answer: packs,
    },
    Question {
        id: "hipaa-04",
        text: "names of people are known from rosters, because no pattern finds them",
        basis: "R-003-38",
        answer: rosters,
    },
    Question {
        id: "hipaa-10",
        text: "health information goes to cleared providers of models only, whatever a job asks for",
        basis: "R-003-25, R-003-26, R-003-36, R-003-37, R-003-61",
        answer: providers,
    },
    Question {
        id: "hipaa-11",
        text: "data of one entity is never mixed with that of another",
        basis: "R-003-33, R-003-41",
        answer: boundary,
    },
    Question {
        id: "hipaa-12",
        text: "policies bind (access control)",
        basis: "45 CFR 164.312(a)(1)",
        answer: mode,
    },
    Question {
        id: "hipaa-13",
        text: "no policy is merely watched (access control)",
        basis: "45 CFR 164.312(a)(1)",
        answer: watched,
    },
    Question {
        id: "hipaa-14",
        text: "nothing happens that is not recorded (audit controls)",
        basis: "45 CFR 164.312(b)",
        answer: recorded,
    },
    Question {
        id: "hipaa-15",
        text: "a change of the record is seen (integrity)",
        basis: "45 CFR 164.312(c)(1)",
        answer: |_, _| {
            Answer::pass(
                "built in: every line holds the hash of the one before, and signed checkpoints \
                 cover them; run `copilot-bridge audit verify` regularly",
            )
        },
    },
    Question {
        id: "hipaa-16",
        text: "the record holds no health information in the clear",
        basis: "45 CFR 164.312(c)(1), R-003-38",
        answer: record_in_the_clear,
    },
    Question {
        id: "hipaa-17",
        text: "the record is kept for six years",
        basis: "45 CFR 164.316(b)(2)(i)",
        answer: retention,
    },
    Question {
        id: "hipaa-18",
        text: "the record is copied to another machine",
        basis: "45 CFR 164.308(a)(7)(ii)(A)",
        answer: |_, _| {
            Answer::unknown(
                "no policy says whether `copilot-bridge audit ship` runs, or a backup: a person knows",
            )
        },
    },
    Question {
        id: "hipaa-19",
        text: "the policies of every date can be shown (documentation)",
        basis: "45 CFR 164.316(b)(1)",
        answer: |_, _| {
            Answer::pass(
                "built in: the policies of each digest are kept beside the record, and \
                 `copilot-bridge audit policy DATE` shows them",
            )
        },
    },
    Question {
        id: "hipaa-20",
        text: "every user has an account of their own on the machine",
        basis: "45 CFR 164.312(a)(2)(i), 164.312(d)",
        answer: |_, _| {
            Answer::unknown(
                "the record has the account of each call; whether persons share one, a person knows",
            )
        },
    },
    Question {
        id: "hipaa-21",
        text: "there are business associate agreements with the providers of hosts and models",
        basis: "45 CFR 164.308(b)(1), 164.314(a)",
        answer: |_, _| Answer::unknown("agreements are on paper: a person answers this row"),
    },
];

/// Six years, with two leap days.
const SIX_YEARS: u32 = 2192;

fn entities(desk: &Desk<'_>, _: &Scene) -> Answer {
    let note = || Problem::note(Code::MissingKey, "");
    let all = &desk.bundle.settings.entities.all;
    let phi: Vec<_> = all.iter().filter(|entity| entity.phi).collect();
    let named = phi.iter().map(|entity| desk.entity(note(), &entity.name));
    if all.is_empty() {
        return Answer::fail(
            "entities.toml names nobody, so that no text counts as health information",
        )
        .at(setting(desk, "entities.toml", &["entity"]));
    }
    if phi.is_empty() {
        return Answer::fail("every entity says `phi = false`").at(places(
            all.iter().map(|entity| desk.entity(note(), &entity.name)),
        ));
    }
    let names: Vec<String> = phi
        .iter()
        .map(|entity| format!("`{}`", entity.name))
        .collect();
    Answer::pass(format!("named: {}", names.join(", "))).at(places(named))
}

fn unknown_entity(desk: &Desk<'_>, _: &Scene) -> Answer {
    let place = setting(desk, "entities.toml", &["entity"]);
    if desk.bundle.settings.entities.phi(None) {
        Answer::pass("built in, as soon as one entity is named").at(place)
    } else {
        Answer::fail("no entity is named, so that whoever is not known has none").at(place)
    }
}

fn packs(desk: &Desk<'_>, _: &Scene) -> Answer {
    let off = phi_packs_off(desk);
    if !off.is_empty() {
        let names: Vec<String> = off.iter().map(|off| format!("`{}`", off.name)).collect();
        let at = off
            .into_iter()
            .map(|off| Problem::note(Code::PhiNotRedacted, "").at(off.file, off.place));
        return Answer::fail(format!("off: {}", names.join(", "))).at(places(at));
    }
    let rules = desk
        .bundle
        .settings
        .redaction
        .phi
        .open()
        .ok()
        .and_then(|rules| rules.about().ok().map(<[_]>::len))
        .unwrap_or(0);
    let files = desk.tables.iter().filter(|toml| {
        let purpose = toml.root().text("purpose");
        purpose.is_some_and(|(purpose, _)| purpose == "phi")
    });
    let files = files.map(|toml| toml.file.path.clone());
    if rules == 0 {
        return Answer::fail("there is no pack with `purpose = \"phi\"`");
    }
    Answer::pass(format!("{rules} rules")).at(files)
}

fn rosters(desk: &Desk<'_>, _: &Scene) -> Answer {
    let mut without = Vec::new();
    let mut with = Vec::new();
    for toml in desk.tables("entities.toml") {
        let root = toml.root();
        let everybody = root.texts("rosters");
        for (table, span) in root.tables("entity") {
            if table.flag("phi") == Some(false) {
                continue;
            }
            let own = table.texts("rosters");
            let Some((_, place)) = own.first().or(everybody.first()) else {
                let place = table.text("name").map_or(span, |(_, place)| place);
                without.push(Problem::note(Code::UnusedRoster, "").at(toml.file, place));
                continue;
            };
            with.push(Problem::note(Code::UnusedRoster, "").at(toml.file, place.clone()));
        }
    }
    let empty: Vec<String> = desk
        .sources
        .iter()
        .flat_map(|source| &source.files)
        .filter(|file| file.name.starts_with("rosters/"))
        .filter(|file| !file.text.lines().any(is_name))
        .map(|file| file.path.clone())
        .collect();
    if !without.is_empty() {
        Answer::fail("these entities have health information, and no roster").at(places(without))
    } else if !empty.is_empty() {
        Answer::fail("these rosters hold no name").at(empty)
    } else if with.is_empty() {
        Answer::fail("no entity with health information is named")
    } else {
        Answer::pass("each entity with health information has a roster").at(places(with))
    }
}

fn is_name(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

fn providers(desk: &Desk<'_>, _: &Scene) -> Answer {
    let cleared = desk.bundle.settings.entities.all.iter();
    let cleared = cleared
        .filter(|entity| !entity.clearances.is_empty())
        .count();
    Answer::unknown(format!(
        "the host chooses the provider: this version reads no llm.toml; {cleared} entities have clearances"
    ))
}

fn boundary(_: &Desk<'_>, _: &Scene) -> Answer {
    Answer::unknown(
        "a session has one entity, by its workspace; whether a file or a tool holds another one's data, no policy can tell",
    )
}

fn mode(desk: &Desk<'_>, _: &Scene) -> Answer {
    let place = setting(desk, "bridge.toml", &["mode"]);
    match desk.bundle.settings.mode {
        Mode::Enforce => Answer::pass("the mode is `enforce`").at(place),
        Mode::Monitor => {
            Answer::fail("the mode is `monitor`: judgements are only recorded").at(place)
        }
    }
}

fn watched(desk: &Desk<'_>, _: &Scene) -> Answer {
    let watched: Vec<_> = desk
        .policies
        .iter()
        .filter(|policy| !policy.binds())
        .collect();
    if watched.is_empty() {
        return Answer::pass("no policy has `@mode(\"monitor\")`");
    }
    let names: Vec<String> = watched
        .iter()
        .map(|policy| format!("`{}`", policy.id()))
        .collect();
    let note = || Problem::note(Code::MonitorOnly, "");
    Answer::fail(format!("only recorded: {}", names.join(", "))).at(places(
        watched.iter().map(|policy| policy.problem(note(), "mode")),
    ))
}

fn recorded(desk: &Desk<'_>, _: &Scene) -> Answer {
    let place = setting(desk, "bridge.toml", &["audit", "on_failure"]);
    match desk.bundle.settings.audit.on_failure {
        OnFailure::Deny => Answer::pass("what cannot be recorded is denied").at(place),
        OnFailure::Allow => Answer::fail("what cannot be recorded passes").at(place),
    }
}

fn record_in_the_clear(desk: &Desk<'_>, _: &Scene) -> Answer {
    let settings = &desk.bundle.settings;
    if !settings.entities.phi(None) {
        return Answer::fail(
            "nothing counts as health information, so that the record keeps it in arguments",
        );
    }
    let rules = settings.redaction.phi.open().ok();
    if rules.is_none_or(|rules| rules.about().is_ok_and(<[_]>::is_empty)) {
        return Answer::fail("there are no rules for health information");
    }
    let redacting = desk
        .policies
        .iter()
        .filter(|policy| policy.policy.obligations.contains(&Obligation::RedactPhi));
    Answer::pass(
        "built in: texts are a keyed hash and a length, arguments are redacted by the rules for health information",
    )
    .at(redacting.map(|policy| policy.place()))
}

fn retention(desk: &Desk<'_>, _: &Scene) -> Answer {
    let place = setting(desk, "bridge.toml", &["audit", "retention_days"]);
    match desk.bundle.settings.audit.retention_days {
        0 => Answer::pass("files are never removed").at(place),
        days if days >= SIX_YEARS => {
            Answer::pass(format!("files are kept for {days} days")).at(place)
        }
        days => Answer::fail(format!(
            "files are kept for {days} days; six years are {SIX_YEARS}"
        ))
        .at(place),
    }
}
