//! What one full decision costs: an event in, the outcome out, the record to nowhere.
//!
//! `cargo bench --bench engine`. This is what a long-lived process pays for a call; a hook pays for
//! starting as well, see the bench `hook`.

mod scene;

use std::hint::black_box;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use copilot_bridge::gate::event::EventName;
use copilot_bridge::gate::place::Installation;
use copilot_bridge::gate::{Gate, Sink};
use copilot_bridge::hook::{self, dialect::Dialect};
use copilot_bridge::policy::{self, Base, Locations};

use scene::{Failure, SAMPLES, Scene, load_line, quantile};

/// Fewer decisions per second than this are too few.
const TARGET: f64 = 15_000.0;

/// How long each kind of event is measured.
const TIME: Duration = Duration::from_secs(2);

/// So many decisions are timed together.
const BATCH: u32 = 100;

fn main() -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", load_line())?;
    let scene = Scene::new()?;
    let policies = scene.policies("policies")?;
    let gate = gate(&policies, &scene.private("state")?)?;
    writeln!(out, "{:<8} {:>12} {:>12}", "", "decisions/s", "µs each")?;
    for sample in &SAMPLES {
        let event = scene.sample(sample);
        let name = EventName::PreToolUse;
        let (event, dialect) = hook::parse(event.as_bytes(), Some(name), Some(Dialect::Copilot))?;
        let (answer, _) = hook::preview(dialect, name, &gate.pass(&event, Duration::ZERO));
        if !answer.contains(sample.answer) {
            return Err(format!("{}: {answer}", sample.name).into());
        }
        let each = median_seconds(|| {
            let _ = black_box(gate.pass(black_box(&event), Duration::ZERO));
        });
        let mark = if 1.0 / each >= TARGET { "≥" } else { "! <" };
        writeln!(
            out,
            "{:<8} {:>12.0} {:>12.1}   {mark} {TARGET} on one core",
            sample.name,
            1.0 / each,
            each * 1e6,
        )?;
    }
    Ok(())
}

fn gate(policies: &Path, state: &Path) -> Result<Gate, Failure> {
    let locations = Locations {
        base: Base::Configured(policies.to_owned()),
        ..Locations::default()
    };
    let bundle = policy::load(&locations).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(policy::Problem::one_line).collect();
        lines.join("\n")
    })?;
    let here = Installation {
        policies: vec![policies.to_owned()],
        state: state.to_owned(),
        ..Installation::default()
    };
    Ok(Gate::new(Ok(bundle), here, Sink::Null))
}

/// How long one run takes: the median over batches.
fn median_seconds(mut run: impl FnMut()) -> f64 {
    let mut batches = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < TIME {
        let started = Instant::now();
        for _ in 0..BATCH {
            run();
        }
        batches.push(started.elapsed().as_secs_f64() / f64::from(BATCH));
    }
    batches.sort_by(f64::total_cmp);
    quantile(&batches, 0.5)
}
