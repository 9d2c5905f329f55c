//! What one hook costs as a process: JSON in, the record written, the answer out.
//!
//! `cargo bench --bench hook [-- --rounds N]`. Every round runs the floor, which is an empty Rust
//! program, and then each case once, so that a busy moment meets all of them. The figure that can
//! be compared between machines is the ratio to the floor of the same round.
//!
//! Measured are the release build that cargo just made and, where somebody made it, the static
//! one: `cargo build --release --target x86_64-unknown-linux-musl`. `COPILOT_BRIDGE_BIN` names
//! another program to measure instead.

mod scene;
mod texts;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use texts::{Numbers, logs, secrets, source};

use scene::{Failure, SAMPLES, Scene, load_line, quantile, set_mode};

/// How often each case runs, unless the command line says otherwise.
const ROUNDS: usize = 400;

/// With this first argument the bench only tells how much memory one other program took.
const PEAK: &str = "--peak";

/// How many policies the crowded case has.
const CROWD: usize = 500;

/// The largest event of the memory target, in bytes.
const LARGE: usize = 64 << 10;

/// The most memory that a hook may take, in MiB.
const PEAK_TARGET: f64 = 16.0;

const COMPILED: Targets = Targets {
    median: 4.0,
    tail: Some(8.0),
};
const TEXT: Targets = Targets {
    median: 14.0,
    tail: None,
};
const CROWDED: Targets = Targets {
    median: 6.5,
    tail: None,
};
/// 4 ms over a floor of one, and 8 with sixty secrets.
const RESULT: Targets = Targets {
    median: 5.0,
    tail: None,
};
const SECRETS: Targets = Targets {
    median: 9.0,
    tail: None,
};

/// The bytes of a tool's result.
const PAGE: usize = 10_000;

/// The ratios to the floor that a case may have.
#[derive(Clone, Copy)]
struct Targets {
    median: f64,
    tail: Option<f64>,
}

/// One program with its arguments and input.
struct Case {
    name: String,
    program: PathBuf,
    arguments: Vec<OsString>,
    input: PathBuf,
    /// What the answer holds.
    answer: &'static str,
    targets: Option<Targets>,
}

/// What a case took.
struct Figures {
    median_ms: f64,
    ratio: f64,
    tail: f64,
    peak_mib: f64,
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.peek().is_some_and(|first| first == PEAK) {
        return peak_of(arguments.skip(1));
    }
    run(arguments)
}

fn run(arguments: impl Iterator<Item = OsString>) -> Result<(), Failure> {
    let rounds = rounds(arguments)?;
    // Before anything else runs: the bench itself is a load.
    let load = load_line();
    let scene = Scene::new()?;
    let crowded = crowd(&scene)?;
    let plain = scene.policies("policies")?;
    let mut cases = vec![floor(&scene)?];
    let mut out = io::stdout().lock();
    writeln!(out, "{load}; {rounds} rounds")?;
    for (build, program) in builds(&mut out)? {
        cases.extend(of_build(&scene, &build, &program, &plain, &crowded)?);
    }
    for case in &cases {
        case.check()?;
    }
    let times = measure(&cases, rounds)?;
    let figures = figures(&cases, &times)?;
    show(&cases, &figures, &mut out)?;
    writeln!(out, "{}", load_line())?;
    Ok(())
}

fn rounds(mut arguments: impl Iterator<Item = OsString>) -> Result<usize, Failure> {
    let mut rounds = ROUNDS;
    while let Some(argument) = arguments.next() {
        // What cargo adds; anything else is a filter, and there is nothing to filter.
        if argument == "--rounds" {
            let value = arguments.next().unwrap_or_default();
            rounds = value.to_string_lossy().parse()?;
        }
    }
    Ok(rounds.max(1))
}

/// The programs to measure.
fn builds(out: &mut impl Write) -> Result<Vec<(String, PathBuf)>, Failure> {
    if let Some(given) = std::env::var_os("COPILOT_BRIDGE_BIN") {
        return Ok(vec![("given".to_owned(), PathBuf::from(given))]);
    }
    let own = PathBuf::from(env!("CARGO_BIN_EXE_copilot-bridge"));
    let mut builds = vec![("dynamic".to_owned(), own.clone())];
    let triple = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let target = own.ancestors().nth(2).unwrap_or(Path::new(""));
    let fixed = target.join(&triple).join("release/copilot-bridge");
    if fixed.exists() {
        let age = |path: &Path| path.metadata().and_then(|data| data.modified());
        if age(&fixed)? < age(&own)? {
            writeln!(
                out,
                "the static build is older than the dynamic one: is it the same program?"
            )?;
        }
        builds.push(("static".to_owned(), fixed));
    } else {
        writeln!(
            out,
            "no static build: `cargo build --release --target {triple}` makes one"
        )?;
    }
    for (build, program) in &builds {
        writeln!(out, "{build}: {}", program.display())?;
    }
    Ok(builds)
}

/// The floor: what any Rust program costs that does nothing.
fn floor(scene: &Scene) -> Result<Case, Failure> {
    let source = scene.beside("floor.rs");
    let program = scene.beside("floor");
    fs::write(&source, "fn main() {}\n")?;
    let input = scene.beside("nothing");
    fs::write(&input, "")?;
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let status = Command::new(compiler)
        .args(["-O", "-C", "strip=symbols", "-o"])
        .args([&program, &source])
        .status()?;
    if !status.success() {
        return Err("the floor does not compile".into());
    }
    Ok(Case {
        name: "floor: an empty Rust program".to_owned(),
        program,
        arguments: Vec::new(),
        input,
        answer: "",
        targets: None,
    })
}

/// The shipped policies and as many more as make [`CROWD`]: rules of a large organisation,
/// each about something else, spread over what the default policies speak of.
fn crowd(scene: &Scene) -> Result<PathBuf, Failure> {
    let dir = scene.policies("crowded")?;
    let mut present = 0;
    for entry in fs::read_dir(&dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "cedar") {
            present += fs::read_to_string(path)?.matches("@id(").count();
        }
    }
    let mut text = String::new();
    for number in present..CROWD {
        let (action, kind, condition) = match number % 6 {
            0 | 1 => ("shell", "Command", "resource.arguments.contains"),
            2 => ("read", "Path", "resource.labels.contains"),
            3 => ("write", "Path", "resource.labels.contains"),
            4 => ("mcp", "Tool", "context.patterns.contains"),
            _ => ("url", "Url", "context.patterns.contains"),
        };
        text.push_str(&format!(
            "@id(\"crowd-{number}\")\n@severity(\"high\")\n\
             @reason(\"`{{resource}}` is against rule {number}\")\n@help(\"ask a person\")\n\
             forbid(principal, action == Bridge::Action::\"{action}\", resource is Bridge::{kind})\n\
             when {{ {condition}(\"crowd-{number}\") && context.depth > 0 }}\n\
             unless {{ context.cwd like \"/srv/crowd-{number}/*\" }};\n\n"
        ));
    }
    let path = dir.join("crowd.cedar");
    fs::write(&path, text)?;
    set_mode(&path, 0o600)?;
    Ok(dir)
}

fn of_build(
    scene: &Scene,
    build: &str,
    program: &Path,
    plain: &Path,
    crowded: &Path,
) -> Result<Vec<Case>, Failure> {
    let compiled = scene.private(&format!("{build}-compiled"))?;
    let text = scene.private(&format!("{build}-text"))?;
    let crowd = scene.private(&format!("{build}-crowded"))?;
    for (policies, state) in [(plain, &compiled), (crowded, &crowd)] {
        compile(program, policies, state)?;
    }
    let large = json!({"path": "src/large.txt", "file_text": "word ".repeat(LARGE / 5)});
    let [shell, view, ask] = SAMPLES;
    let rows = [
        (&shell, scene.sample(&shell), plain, &compiled, COMPILED),
        (&view, scene.sample(&view), plain, &compiled, COMPILED),
        (&ask, scene.sample(&ask), plain, &compiled, COMPILED),
        (&shell, scene.sample(&shell), crowded, &crowd, CROWDED),
        (&shell, scene.sample(&shell), plain, &text, TEXT),
        (
            &view,
            scene.event("create", &large),
            plain,
            &compiled,
            COMPILED,
        ),
    ];
    let named = [
        "compiled",
        "compiled",
        "compiled",
        "500 policies",
        "text",
        "64 KiB",
    ];
    let calls =
        rows.into_iter()
            .zip(named)
            .map(|((sample, event, policies, state, targets), how)| {
                let name = format!("{build} {how} {}", sample.name);
                let hook = Hook {
                    program,
                    event: "pre-tool-use",
                    policies,
                    state,
                };
                hook.case(scene, name, event, sample.answer, targets)
            });
    let mut numbers = Numbers::new();
    let page = |text: String| text.chars().take(PAGE).collect::<String>();
    let results = [
        ("logs", page(logs(&mut numbers, PAGE)), "{}", RESULT),
        ("source", page(source()?), "{}", RESULT),
        ("60 secrets", secrets(&mut numbers), "redacted:", SECRETS),
    ];
    let results = results.into_iter().map(|(what, text, answer, targets)| {
        let hook = Hook {
            program,
            event: "post-tool-use",
            policies: plain,
            state: &compiled,
        };
        let name = format!("{build} compiled, a result: {what}");
        hook.case(scene, name, result(scene, &text)?, answer, targets)
    });
    calls.chain(results).collect()
}

/// An event as Copilot CLI writes it after a tool.
fn result(scene: &Scene, text: &str) -> Result<String, Failure> {
    let call = scene.event("bash", &json!({"command": "cat notes.txt"}));
    let mut event: Value = serde_json::from_str(&call)?;
    let said = json!({"resultType": "success", "textResultForLlm": text});
    if let Some(fields) = event.as_object_mut() {
        fields.insert("toolResult".to_owned(), said);
    }
    Ok(event.to_string())
}

/// How a hook is called.
struct Hook<'a> {
    program: &'a Path,
    event: &'a str,
    policies: &'a Path,
    state: &'a Path,
}

impl Hook<'_> {
    fn case(
        &self,
        scene: &Scene,
        name: String,
        event: String,
        answer: &'static str,
        targets: Targets,
    ) -> Result<Case, Failure> {
        let input = scene.beside(&format!("{name}.json"));
        fs::write(&input, event)?;
        let mut arguments: Vec<OsString> =
            ["hook", self.event, "--dialect", "copilot", "--policies"]
                .map(OsString::from)
                .to_vec();
        arguments.extend([self.policies.into(), "--state".into(), self.state.into()]);
        Ok(Case {
            name,
            program: self.program.to_owned(),
            arguments,
            input,
            answer,
            targets: Some(targets),
        })
    }
}

fn compile(program: &Path, policies: &Path, state: &Path) -> Result<(), Failure> {
    let output = Command::new(program)
        .args(["policy", "compile", "--policies"])
        .arg(policies)
        .arg("--state")
        .arg(state)
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "`policy compile` failed: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
    .into())
}

impl Case {
    fn command(&self) -> io::Result<Command> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .env_clear()
            .stdin(File::open(&self.input)?)
            .stderr(Stdio::null());
        Ok(command)
    }

    /// Runs it once, and fails if it answers anything but what it should.
    fn check(&self) -> Result<(), Failure> {
        let output = self.command()?.output()?;
        let answer = String::from_utf8_lossy(&output.stdout);
        if output.status.success() && answer.contains(self.answer) {
            return Ok(());
        }
        Err(format!("{}: {}: {answer}", self.name, output.status).into())
    }

    /// Runs it once. In milliseconds.
    fn time(&self) -> Result<f64, Failure> {
        let mut command = self.command()?;
        command.stdout(Stdio::null());
        let started = Instant::now();
        let status = command.status()?;
        let elapsed = started.elapsed();
        if status.success() {
            return Ok(elapsed.as_secs_f64() * 1000.0);
        }
        Err(format!("{}: {status}", self.name).into())
    }

    /// The most memory that it ever had, in MiB. The system tells it of all programs that a
    /// process waited for together: so each is waited for by a process of its own.
    fn peak(&self) -> Result<f64, Failure> {
        let output = Command::new(std::env::current_exe()?)
            .arg(PEAK)
            .arg(&self.program)
            .args(&self.arguments)
            .stdin(File::open(&self.input)?)
            .output()?;
        let bytes: f64 = String::from_utf8(output.stdout)?.trim().parse()?;
        Ok(bytes / f64::from(1 << 20))
    }
}

/// Runs a program and says how many bytes of memory it had at most.
fn peak_of(mut line: impl Iterator<Item = OsString>) -> Result<(), Failure> {
    let program = line.next().ok_or("no program to run")?;
    Command::new(program)
        .args(line)
        .stdout(Stdio::null())
        .status()?;
    writeln!(io::stdout(), "{}", peak_of_children()?)?;
    Ok(())
}

#[cfg(unix)]
fn peak_of_children() -> Result<i64, Failure> {
    use nix::sys::resource::{UsageWho, getrusage};
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    Ok(getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss() * unit)
}

#[cfg(not(unix))]
fn peak_of_children() -> Result<i64, Failure> {
    Err("how much memory a program had is not to be told on this system".into())
}

/// The times of each case, in milliseconds, round by round.
fn measure(cases: &[Case], rounds: usize) -> Result<Vec<Vec<f64>>, Failure> {
    let mut times = vec![Vec::with_capacity(rounds); cases.len()];
    for _ in 0..rounds {
        for (case, times) in cases.iter().zip(&mut times) {
            times.push(case.time()?);
        }
    }
    Ok(times)
}

fn figures(cases: &[Case], times: &[Vec<f64>]) -> Result<Vec<Figures>, Failure> {
    let floor = times.first().ok_or("nothing was measured")?;
    cases
        .iter()
        .zip(times)
        .map(|(case, own)| {
            let mut ratios: Vec<f64> = own.iter().zip(floor).map(|(a, b)| a / b).collect();
            let mut sorted = own.clone();
            ratios.sort_by(f64::total_cmp);
            sorted.sort_by(f64::total_cmp);
            Ok(Figures {
                median_ms: quantile(&sorted, 0.5),
                ratio: quantile(&ratios, 0.5),
                tail: quantile(&ratios, 0.99),
                peak_mib: case.peak()?,
            })
        })
        .collect()
}

fn show(cases: &[Case], figures: &[Figures], out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "{:<32} {:>9} {:>14} {:>14} {:>16}",
        "", "median ms", "ratio", "p99 ratio", "peak MiB"
    )?;
    for (case, figures) in cases.iter().zip(figures) {
        let targets = case.targets;
        writeln!(
            out,
            "{:<32} {:>9.3} {:>14} {:>14} {:>16}",
            case.name,
            figures.median_ms,
            beside(figures.ratio, targets.map(|targets| targets.median)),
            beside(figures.tail, targets.and_then(|targets| targets.tail)),
            beside(figures.peak_mib, targets.map(|_| PEAK_TARGET)),
        )?;
    }
    Ok(())
}

/// A figure and the target that it should not pass.
fn beside(figure: f64, target: Option<f64>) -> String {
    match target {
        None => format!("{figure:.2}"),
        Some(target) if figure <= target => format!("{figure:.2} ≤ {target}"),
        Some(target) => format!("{figure:.2} > {target} !"),
    }
}
