//! Trying tests: each in a workspace that is made for it, behind the gate that hooks pass.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Spanned;

use super::read::text;
use super::report::{Report, Tried};
use super::{Given, Names, Suite, Test};
use crate::engine::bundle::Bundle;
use crate::engine::containment::{PathLabel, PathPattern};
use crate::engine::decision::Effect;
use crate::facts::paths::words;
use crate::gate::Passage;
use crate::gate::event::{Body, Event};
use crate::gate::outcome::{Outcome, sentences};
use crate::policy::diagnostic::{quote, suggest};
use crate::policy::{Code, Problem};
use crate::workbench::props::Prop;
use crate::workbench::scene::Scene;

/// The scenes that the tests of a suite need under one bundle.
#[derive(Debug)]
pub struct Scenes<'b> {
    bundle: &'b Bundle,
    made: Vec<(Arc<Given>, Stage)>,
}

/// A scene, and what stands in it.
#[derive(Debug)]
struct Stage {
    scene: Scene,
    standing: Option<(PathBuf, Vec<Prop>)>,
}

impl Suite {
    /// Judges every test by a bundle.
    ///
    /// # Errors
    /// If the folders to do it in cannot be made.
    pub fn run(&self, bundle: &Bundle) -> io::Result<Report> {
        self.run_seeing(bundle, &mut |_| {})
    }

    /// The same; `see` is shown what became of each event.
    ///
    /// # Errors
    /// If the folders to do it in cannot be made.
    pub fn run_seeing(&self, bundle: &Bundle, see: &mut dyn FnMut(&Passage)) -> io::Result<Report> {
        let mut scenes = Scenes::new(bundle);
        let mut report = Report::default();
        for test in &self.tests {
            report.tried.push(scenes.run(test, see)?);
        }
        Ok(report)
    }
}

impl<'b> Scenes<'b> {
    /// The scenes under a bundle; they are made as tests need them.
    #[must_use]
    pub const fn new(bundle: &'b Bundle) -> Self {
        let made = Vec::new();
        Self { bundle, made }
    }

    /// Tries a test.
    ///
    /// # Errors
    /// If the folders to do it in cannot be made.
    pub fn run(&mut self, test: &Test, see: &mut dyn FnMut(&Passage)) -> io::Result<Tried> {
        let bundle = self.bundle;
        let given = &test.around.given;
        let entity = match &test.around.entity {
            None => None,
            Some(name) => match entity_of(bundle, given, name) {
                Ok(index) => Some(index),
                Err(problem) => return Ok(not_tried(test, *problem)),
            },
        };
        let stage = self.stage(given)?;
        let workspace = match entity {
            None => stage.scene.workspace().to_path_buf(),
            Some(index) => entity_workspace(stage.scene.root(), index),
        };
        if let Err((index, error)) = stage.furnish(&workspace, &test.around.props) {
            let span = test.around.props_at.get(index);
            let span = span.cloned().unwrap_or_else(|| test.span.clone());
            let text = format!("this cannot be made: {}", words(&error));
            let problem = Problem::error(Code::FailedTest, text).at(&test.file, span);
            return Ok(not_tried(test, problem));
        }
        let event = event(test, &stage.scene, &workspace)?;
        let passage = stage.scene.judge(&event);
        see(&passage);
        Ok(tried(test, &passage, bundle))
    }

    fn stage(&mut self, given: &Arc<Given>) -> io::Result<&mut Stage> {
        let known = self.made.iter().position(|(known, _)| known == given);
        let index = match known {
            Some(index) => index,
            None => {
                let mut bad = None;
                let scene = Scene::built(|root| {
                    amended(self.bundle, given, root).unwrap_or_else(|error| {
                        bad = Some(error);
                        self.bundle.clone()
                    })
                })?;
                if let Some(error) = bad {
                    return Err(error);
                }
                let standing = None;
                self.made
                    .push((Arc::clone(given), Stage { scene, standing }));
                self.made.len() - 1
            }
        };
        let stage = self.made.get_mut(index).map(|(_, stage)| stage);
        stage.ok_or_else(|| io::Error::other("a scene is gone"))
    }
}

impl Stage {
    /// Nothing of the test before is left, unless the very same things stand here.
    fn furnish(&mut self, workspace: &Path, props: &[Prop]) -> Result<(), (usize, io::Error)> {
        let same = |(at, known): &(PathBuf, Vec<Prop>)| at == workspace && known == props;
        if self.standing.as_ref().is_some_and(same) {
            return Ok(());
        }
        self.standing = None;
        self.scene.furnish(workspace, props)?;
        self.standing = Some((workspace.to_path_buf(), props.to_vec()));
        Ok(())
    }
}

/// The bundle with what an installation fills in, for a scene.
fn amended(bundle: &Bundle, given: &Given, root: &Path) -> io::Result<Bundle> {
    let mut bundle = bundle.clone();
    let containment = &mut bundle.settings.containment;
    // The scene stands for it.
    containment.workspace_root = None;
    for (name, paths) in &given.labels {
        match containment
            .labels
            .iter_mut()
            .find(|label| label.name == *name)
        {
            Some(label) => label.paths.extend(paths.iter().cloned()),
            None => containment.labels.push(PathLabel {
                name: name.clone(),
                as_written: false,
                paths: paths.clone(),
            }),
        }
    }
    let entities = &mut bundle.settings.entities;
    for entity in &given.entities {
        if entities.named(&entity.name).is_none() {
            entities.all.push(entity.clone());
        }
    }
    for (index, entity) in entities.all.iter_mut().enumerate() {
        let workspace = entity_workspace(root, index).display().to_string();
        let pattern = PathPattern::new(&workspace).map_err(|error| io::Error::other(error.0))?;
        entity.workspaces.push(pattern);
    }
    Ok(bundle)
}

/// Where the agents of an entity work in a scene.
fn entity_workspace(root: &Path, index: usize) -> PathBuf {
    root.join("entities").join(index.to_string())
}

/// Which of the entities it is, counted as [`amended`] lists them.
fn entity_of(
    bundle: &Bundle,
    given: &Given,
    name: &Spanned<String>,
) -> Result<usize, Box<Problem>> {
    let own = &bundle.settings.entities;
    let mut names: Vec<&str> = own.all.iter().map(|entity| entity.name.as_str()).collect();
    let more = given.entities.iter().map(|entity| entity.name.as_str());
    for name in more {
        if own.named(name).is_none() {
            names.push(name);
        }
    }
    let wanted = own
        .named(name.get_ref())
        .map_or(name.get_ref().as_str(), |entity| entity.name.as_str());
    let same = |known: &&str| known.to_lowercase() == wanted.trim().to_lowercase();
    names.iter().position(same).ok_or_else(|| {
        let text = format!("no entity is called `{}`", quote(wanted));
        let help = suggest(wanted, names).unwrap_or_else(|| {
            "entities stand in entities.toml, or in `entities` of `[defaults]`".to_owned()
        });
        Box::new(Problem::error(Code::FailedTest, text).help(help))
    })
}

/// The event of a test, as it happens in a scene.
fn event(test: &Test, scene: &Scene, workspace: &Path) -> io::Result<Event> {
    let mut event = test.event.clone();
    let cwd = test.around.cwd.as_deref().or(event.cwd.as_deref());
    let cwd = match cwd.map(|cwd| scene.place(cwd, workspace)) {
        None => workspace.to_path_buf(),
        Some(cwd) => match cwd.strip_prefix("~/") {
            Some(rest) => scene.home().join(rest),
            None => workspace.join(cwd),
        },
    };
    event.cwd = Some(cwd.display().to_string());
    if test.around.depth > 0 {
        event.agent_id = scene.agent_at(test.around.depth)?;
    }
    if let (true, Body::Call(call)) = (test.places, &mut event.body)
        && let Some(path) = call.args.get_mut("path")
        && let Some(written) = path.as_str()
    {
        *path = scene.place(written, workspace).into();
    }
    Ok(event)
}

fn tried(test: &Test, passage: &Passage, bundle: &Bundle) -> Tried {
    let outcome = &passage.outcome;
    let mut deciding: Vec<String> = Vec::new();
    for reason in outcome.reasons() {
        if !deciding.contains(&reason.id) {
            deciding.push(reason.id.clone());
        }
    }
    let would_decide = passage
        .judgement
        .as_ref()
        .map_or(outcome.effect(), |trace| trace.would_decide);
    Tried {
        decision: outcome.effect(),
        would_decide,
        reasons: outcome.reasons().to_vec(),
        problems: compare(test, passage, &deciding, would_decide, bundle),
        deciding,
        ..blank(test)
    }
}

fn not_tried(test: &Test, problem: Problem) -> Tried {
    let problem = match (&problem.file, &test.around.entity) {
        (None, Some(entity)) => problem.at(&test.file, entity.span()),
        _ => problem,
    };
    Tried {
        problems: vec![problem],
        ..blank(test)
    }
}

fn blank(test: &Test) -> Tried {
    let (line, _) = crate::policy::diagnostic::place(&test.file.text, test.span.start);
    Tried {
        name: test.name.clone(),
        file: test.file.path.clone(),
        line,
        decision: Effect::Deny,
        would_decide: Effect::Deny,
        deciding: Vec::new(),
        reasons: Vec::new(),
        problems: Vec::new(),
    }
}

/// What came otherwise than it was expected.
fn compare(
    test: &Test,
    passage: &Passage,
    deciding: &[String],
    would_decide: Effect,
    bundle: &Bundle,
) -> Vec<Problem> {
    let (outcome, expected) = (&passage.outcome, &test.expected);
    let mut comparison = Comparison {
        test,
        problems: Vec::new(),
    };
    comparison.same(&expected.decision, outcome.effect(), || {
        sentences(outcome.reasons())
    });
    if let Some(wanted) = &expected.would_decide {
        comparison.same(wanted, would_decide, String::new);
    }
    if let Some(names) = &expected.policies {
        let is = |found: &str, wanted: &str| {
            found == wanted || found.split_once(':').is_some_and(|(_, id)| id == wanted)
        };
        let known = bundle.policies.iter().map(|policy| policy.id.as_str());
        comparison.names(names, deciding, is, "decided", |wanted| {
            let bare = known
                .clone()
                .map(|id| id.split_once(':').map_or(id, |id| id.1));
            if known.clone().any(|id| is(id, wanted)) {
                return None;
            }
            suggest(wanted, bare)
        });
    }
    let is = |found: &str, wanted: &str| found == wanted;
    if let Some(names) = &expected.obligations {
        let owed = outcome.obligations().iter();
        let owed: Vec<String> = owed.map(|owed| owed.name().to_owned()).collect();
        comparison.names(names, &owed, is, "is owed", |_| None);
    }
    if let Some(names) = &expected.rules {
        comparison.names(names, &hits(passage), is, "found something", |_| None);
    }
    comparison.texts(outcome);
    let advice = match outcome {
        Outcome::Pass(cleared) => cleared.advice().error.as_ref(),
        Outcome::Ask(_) | Outcome::Deny(_) => None,
    };
    if let Some(wanted) = &expected.error_class {
        let class = advice.map_or("none", |advice| advice.class.as_str());
        comparison.same(wanted, class.to_owned(), String::new);
    }
    if let Some(wanted) = &expected.handling {
        let wanted = Spanned::new(wanted.span(), wanted.get_ref().name());
        let handling = advice.map_or("none", |advice| advice.handling.name());
        comparison.same(&wanted, handling, String::new);
    }
    comparison.problems
}

/// The redaction rules that found something.
fn hits(passage: &Passage) -> Vec<String> {
    let requests = passage.judgement.iter().flat_map(|trace| &trace.verdicts);
    let found: BTreeSet<&String> = requests
        .flat_map(|(request, _)| {
            let context = &request.context;
            context.secrets.iter().chain(&context.health)
        })
        .collect();
    found.into_iter().cloned().collect()
}

/// The problems of one test, as they are found.
struct Comparison<'t> {
    test: &'t Test,
    problems: Vec<Problem>,
}

impl Comparison<'_> {
    fn push(&mut self, span: std::ops::Range<usize>, text: String, help: Option<String>) {
        let name = quote(&self.test.name);
        let problem = Problem::error(Code::FailedTest, format!("{name}: {text}"));
        let problem = problem.at(&self.test.file, span);
        self.problems
            .push(match help.filter(|help| !help.is_empty()) {
                Some(help) => problem.help(help),
                None => problem,
            });
    }

    fn same<T: PartialEq + std::fmt::Display>(
        &mut self,
        wanted: &Spanned<T>,
        got: T,
        why: impl FnOnce() -> String,
    ) {
        if *wanted.get_ref() != got {
            let text = format!("expected {}, got {got}", wanted.get_ref());
            self.push(wanted.span(), text, Some(why()));
        }
    }

    fn names<'n>(
        &mut self,
        names: &'n Names,
        got: &[String],
        is: impl Fn(&str, &str) -> bool,
        what: &str,
        hint: impl Fn(&'n str) -> Option<String>,
    ) {
        for wanted in &names.all {
            let name = wanted.get_ref().as_str();
            if got.iter().any(|got| is(got, name)) {
                continue;
            }
            let help = hint(name).unwrap_or_else(|| match got {
                [] => "there is none".to_owned(),
                got => format!("it is {}", listed(got)),
            });
            let text = format!("expected that `{}` {what}", quote(name));
            self.push(wanted.span(), text, Some(help));
        }
        let others: Vec<String> = got
            .iter()
            .filter(|got| !names.all.iter().any(|name| is(got, name.get_ref())))
            .cloned()
            .collect();
        if self.test.expected.only && !others.is_empty() {
            let text = format!("expected no others, but {} {what} too", listed(&others));
            self.push(names.span.clone(), text, None);
        }
    }

    fn texts(&mut self, outcome: &Outcome) {
        let goes_on: Option<Cow<'_, str>> = match outcome {
            Outcome::Pass(cleared) => {
                let replaced = cleared.advice().replacement.as_deref();
                replaced.or_else(|| text(&self.test.event)).map(Cow::from)
            }
            Outcome::Ask(_) => None,
            Outcome::Deny(refusal) => refusal.instead().map(Cow::from),
        };
        let goes_on = goes_on.unwrap_or_default();
        if let Some(wanted) = &self.test.expected.text
            && *wanted.get_ref() != *goes_on
        {
            let help = format!("this goes on: {goes_on}");
            let text = "another text goes on".to_owned();
            self.push(wanted.span(), text, Some(help));
        }
        for secret in &self.test.secrets {
            if goes_on.contains(secret.as_str()) {
                let text = format!("`{}` goes on", quote(secret));
                let help = "no rule took it out: name the rule in `rules` to see which one should";
                self.push(self.test.happens.clone(), text, Some(help.to_owned()));
            }
        }
    }
}

fn listed(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
