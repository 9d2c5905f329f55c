//! What one full decision costs: an event in, the outcome out, the record to nowhere.
//!
//! `cargo bench --bench engine`. This is what a long-lived process pays for a call; a hook pays for
//! starting as well, see the bench `hook`.

mod scene;

use std::hint::black_box;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use copilot_bridge::engine::action::Action;
use copilot_bridge::engine::request::{Agent, ToolFacts};
use copilot_bridge::gate::event::{
    Body, Capabilities, Event, EventName, Reach, ReachedPath, Served, ToolCall,
};
use copilot_bridge::gate::outcome::Outcome;
use copilot_bridge::gate::place::Installation;
use copilot_bridge::gate::{Gate, Sink};
use copilot_bridge::hook::{self, dialect::Dialect};
use copilot_bridge::policy::{self, Base, Locations};

use serde_json::{Value, json};

use scene::{Failure, SAMPLES, Scene, load_line, quantile};

/// As in the program.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
    let gate = gate(&policies, &scene.private("state")?, Sink::Null)?;
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
    served(&mut out, &scene, &policies)
}

/// The same for a call of a tool that is served over MCP, and for what it answers; then with the record.
fn served(out: &mut impl Write, scene: &Scene, policies: &Path) -> Result<(), Failure> {
    let workspace = scene.beside("workspace");
    let events = [
        ("call", served_event(&workspace, call())),
        ("result", served_event(&workspace, answer())),
    ];
    for (sink, what) in [(Sink::Null, ""), (Sink::State, " and record")] {
        let state = scene.private(&format!("state of {sink:?}"))?;
        let gate = gate(policies, &state, sink)?;
        for (name, event) in &events {
            if !matches!(gate.pass(event, Duration::ZERO), Outcome::Pass(_)) {
                return Err(format!("{name}: not allowed").into());
            }
            let each = median_seconds(|| {
                let _ = black_box(gate.pass(black_box(event), Duration::ZERO));
            });
            writeln!(
                out,
                "{:<8} {:>12.0} {:>12.1}   over MCP{what}",
                name,
                1.0 / each,
                each * 1e6
            )?;
        }
    }
    Ok(())
}

fn call() -> Body {
    Body::Call(ToolCall {
        name: "copilot_read_file".to_owned(),
        args: json!({"path": "src/main.rs"}),
    })
}

fn answer() -> Body {
    Body::Content {
        call: ToolCall {
            name: "copilot_read_file".to_owned(),
            args: Value::Null,
        },
        content: json!({"content": [{"type": "text", "text": "fn main() {}\n"}], "isError": false}),
        failed: false,
    }
}

fn served_event(workspace: &Path, body: Body) -> Event {
    Event {
        name: match body {
            Body::Call(_) => EventName::PreToolUse,
            _ => EventName::PostToolUse,
        },
        dialect: "mcp",
        call: Some("00000000-0000-4000-8000-000000000000".to_owned()),
        agent: Agent {
            host: "mcp".to_owned(),
            session: "bench".to_owned(),
            ..Agent::default()
        },
        agent_id: None,
        cwd: Some(workspace.to_string_lossy().into_owned()),
        host: Capabilities {
            interactive: "no",
            replaces_results: true,
            replaces_prompts: false,
        },
        body,
        served: Some(Served {
            tool: ToolFacts {
                server: "copilot".to_owned(),
                name: "copilot_read_file".to_owned(),
                known: true,
                tier: "read_only".to_owned(),
                mode: "autonomous".to_owned(),
                ..ToolFacts::default()
            },
            reach: Reach::Paths(vec![ReachedPath {
                action: Action::Read,
                operation: "read",
                path: workspace.join("src/main.rs").to_string_lossy().into_owned(),
            }]),
            ..Served::default()
        }),
    }
}

fn gate(policies: &Path, state: &Path, sink: Sink) -> Result<Gate, Failure> {
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
    Ok(Gate::new(Ok(bundle), here, sink))
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
