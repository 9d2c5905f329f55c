//! Exceptions: which forbids are left out, for which requests, and until when.
//!
//! An exception takes away what a policy says, never what permits: what no policy permits stays denied. It
//! never speaks of what protects this program, of texts that may have to be redacted, nor of faults.

use serde::{Deserialize, Serialize};

use super::Judgement;
use super::action::Action;
use super::bundle::{Bundle, Verdict};
use super::containment::{PathPattern, Places};
use super::decision::Effect;
use super::permission::{Judged, Waived};
use super::request::{Request, Resource};

/// One `[[exception]]` of `exceptions.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exception {
    /// `layer:id`.
    pub id: String,
    /// The file as a person finds it.
    pub file: String,
    /// The line where it starts, counted from 1.
    pub line: u32,
    /// The policies that are left out, as `layer:id`.
    pub policies: Vec<String>,
    /// Why.
    pub reason: String,
    /// Who answers for it.
    pub owner: String,
    /// From then on it means nothing, in seconds since 1970.
    pub expires: i64,
    /// The requests that it is for.
    pub scope: Scope,
}

/// Which requests an exception is for: all of these have to fit. What is empty is not asked about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// One of these actions.
    pub actions: Vec<Action>,
    /// A call of one of these tools, by canonical name.
    pub tools: Vec<String>,
    /// In one of these workspaces.
    pub workspaces: Vec<PathPattern>,
    /// In one of these sessions.
    pub sessions: Vec<String>,
    /// For one of these entities.
    pub entities: Vec<String>,
    /// Of an agent in one of these programs.
    pub agents: Vec<String>,
    /// About one of these things.
    pub subject: Subject,
}

/// What a request is about: one request has one resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Subject {
    /// Whatever it is.
    #[default]
    Anything,
    /// One of these paths, or what is below.
    Paths(Vec<PathPattern>),
    /// One of these commands.
    Commands(Vec<CommandName>),
    /// An address on one of these hosts.
    Hosts(Vec<HostName>),
}

/// A program, and maybe its subcommand: `git push`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandName {
    /// The program, without a folder.
    pub program: String,
    /// The subcommand; nothing for all of them.
    pub subcommand: Option<String>,
}

/// A host, or all hosts below a domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostName {
    /// The name in lower case, without a leading `*.`.
    pub name: String,
    /// Whether the hosts below it are meant, and not itself.
    pub below: bool,
}

/// An exception that fits a request that was judged, and what it leaves out there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiver {
    exception: usize,
    verdict: usize,
    policies: Vec<usize>,
}

/// An exception without which a request would have had a stricter answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Used {
    /// The exception, as an index into the bundle's.
    pub exception: usize,
    /// The policies that it left out, as indices into the bundle's.
    pub policies: Vec<usize>,
}

impl Scope {
    /// Whether it says nothing, and so would fit everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a request is among those that it is for.
    #[must_use]
    pub fn fits(&self, request: &Request, places: &Places) -> bool {
        let context = &request.context;
        let among = |all: &[String], value: &str| {
            all.is_empty() || (!value.is_empty() && all.iter().any(|one| one == value))
        };
        (self.actions.is_empty() || self.actions.contains(&request.action))
            && among(&self.tools, &context.tool)
            && among(&self.sessions, &request.principal.session)
            && among(&self.entities, &context.entity)
            && among(&self.agents, &request.principal.host)
            && (self.workspaces.is_empty() || covered(&self.workspaces, &context.workspace, places))
            && self.subject.fits(&request.resource, places)
    }
}

impl Subject {
    fn fits(&self, resource: &Resource, places: &Places) -> bool {
        match (self, resource) {
            (Self::Anything, _) => true,
            // Where a path leads that has a fault cannot be told.
            (Self::Paths(all), Resource::Path(path)) => {
                path.fault.is_empty() && covered(all, &path.resolved, places)
            }
            (Self::Commands(all), Resource::Command(command)) => all.iter().any(|one| {
                !command.program.is_empty()
                    && one.program == command.program
                    && (one.subcommand.as_ref()).is_none_or(|word| *word == command.subcommand)
            }),
            (Self::Hosts(all), Resource::Url(url)) => {
                url.fault.is_empty() && all.iter().any(|one| one.is(&url.host))
            }
            _ => false,
        }
    }
}

impl HostName {
    fn is(&self, host: &str) -> bool {
        match self.below {
            false => host == self.name,
            true => host
                .strip_suffix(self.name.as_str())
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        }
    }
}

impl Waiver {
    /// The exception, as an index into the bundle's.
    #[must_use]
    pub const fn exception(&self) -> usize {
        self.exception
    }
}

/// Whether one of the patterns names that path. Nothing is read into it: a wrong case is another path.
fn covered(patterns: &[PathPattern], path: &str, places: &Places) -> bool {
    !path.is_empty() && patterns.iter().any(|one| one.covers_exactly(path, places))
}

/// Where exceptions fit, whether they have expired or not.
pub(super) fn waivers(bundle: &Bundle, judgement: &Judgement, places: &Places) -> Vec<Waiver> {
    // A fault has no exception.
    if judgement.verdicts.iter().any(|(_, judged)| judged.is_err()) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (verdict, (request, judged)) in judgement.verdicts.iter().enumerate() {
        let Ok(judged) = judged else { continue };
        if judged.would == Effect::Allow || super::guarded(request) {
            continue;
        }
        for (exception, one) in bundle.settings.exceptions.iter().enumerate() {
            let policies = left_out(bundle, judged, one);
            if !policies.is_empty() && one.scope.fits(request, places) {
                found.push(Waiver {
                    exception,
                    verdict,
                    policies,
                });
            }
        }
    }
    found
}

/// The policies that held and that the exception names.
fn left_out(bundle: &Bundle, judged: &Judged, exception: &Exception) -> Vec<usize> {
    let named = |index: &&usize| {
        bundle.policies.get(**index).is_some_and(|policy| {
            policy.verdict != Verdict::Permit && exception.policies.contains(&policy.id)
        })
    };
    judged.held.iter().filter(named).copied().collect()
}

/// What those exceptions leave out of one verdict.
pub(super) fn of_verdict(waivers: &[Waiver], verdict: usize) -> Vec<Waived> {
    let here = waivers.iter().filter(|waiver| waiver.verdict == verdict);
    here.flat_map(|waiver| {
        waiver.policies.iter().map(|policy| Waived {
            policy: *policy,
            exception: waiver.exception,
        })
    })
    .collect()
}

/// The exceptions that made the answer to a request less strict.
pub(super) fn used(bundle: &Bundle, judged: &Judged) -> Vec<Used> {
    if judged.waived.is_empty() || judged.unwaived == judged.effect {
        return Vec::new();
    }
    let mut all: Vec<Used> = Vec::new();
    for Waived { policy, exception } in &judged.waived {
        let stricter = bundle
            .policies
            .get(*policy)
            .is_some_and(|policy| policy.verdict.effect() > judged.effect && !policy.monitor);
        if !stricter {
            continue;
        }
        match all.iter_mut().find(|used| used.exception == *exception) {
            Some(used) => used.policies.push(*policy),
            None => all.push(Used {
                exception: *exception,
                policies: vec![*policy],
            }),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::request::{Agent, CommandFacts, Context, PathFacts, UrlFacts};

    fn places() -> Places {
        Places {
            home: Some("/home/dev".to_owned()),
            workspace: Some("/work/ws".to_owned()),
            ..Places::default()
        }
    }

    fn request(resource: Resource) -> Request {
        Request {
            principal: Agent {
                host: "copilot".to_owned(),
                session: "s1".to_owned(),
                ..Agent::default()
            },
            action: Action::Shell,
            resource,
            context: Context {
                tool: "bash".to_owned(),
                workspace: "/work/ws".to_owned(),
                ..Context::default()
            },
        }
    }

    fn command(program: &str, subcommand: &str) -> Request {
        request(Resource::Command(CommandFacts {
            program: program.to_owned(),
            subcommand: subcommand.to_owned(),
            ..CommandFacts::default()
        }))
    }

    fn path(resolved: &str, fault: &str) -> Request {
        request(Resource::Path(PathFacts {
            given: "x".to_owned(),
            resolved: resolved.to_owned(),
            fault: fault.to_owned(),
            ..PathFacts::default()
        }))
    }

    fn about(subject: Subject) -> Scope {
        Scope {
            subject,
            ..Scope::default()
        }
    }

    #[test]
    fn commands_fit_by_program_and_subcommand() {
        let push = |subcommand: Option<&str>| {
            about(Subject::Commands(vec![CommandName {
                program: "git".to_owned(),
                subcommand: subcommand.map(str::to_owned),
            }]))
        };
        for (scope, request, fits) in [
            (push(Some("push")), command("git", "push"), true),
            (push(Some("push")), command("git", "fetch"), false),
            (push(Some("push")), command("git", ""), false),
            (push(None), command("git", "fetch"), true),
            (push(None), command("gi", ""), false),
            (push(None), command("", ""), false),
            (push(None), path("/work/ws/git", ""), false),
        ] {
            assert_eq!(scope.fits(&request, &places()), fits, "{request:?}");
        }
    }

    #[test]
    fn paths_fit_as_they_are_and_only_if_it_is_known_where_they_lead() {
        let scope = |pattern: &str| about(Subject::Paths(vec![PathPattern::new(pattern).unwrap()]));
        for (pattern, resolved, fits) in [
            ("${workspace}/vendor", "/work/ws/vendor", true),
            ("${workspace}/vendor", "/work/ws/vendor/a/b", true),
            ("${workspace}/vendor", "/work/ws/vendored", false),
            ("${workspace}/vendor", "/work/ws/Vendor", false),
            ("**/*.pem", "/x/a.pem", true),
            ("**/*.pem", "/x/a.PEM", false),
            ("~/notes", "/home/dev/notes/a", true),
            ("${temp}", "/tmp/x", false),
            ("${workspace}", "", false),
        ] {
            let fit = scope(pattern).fits(&path(resolved, ""), &places());
            assert_eq!(fit, fits, "{pattern} {resolved}");
        }
        let broken = path("/work/ws/vendor", "two readings");
        assert!(!scope("${workspace}/vendor").fits(&broken, &places()));
    }

    #[test]
    fn hosts_fit_whole_or_below_a_domain() {
        let scope = |name: &str, below| {
            about(Subject::Hosts(vec![HostName {
                name: name.to_owned(),
                below,
            }]))
        };
        let url = |host: &str, fault: &str| {
            request(Resource::Url(UrlFacts {
                host: host.to_owned(),
                fault: fault.to_owned(),
                ..UrlFacts::default()
            }))
        };
        for (below, host, fits) in [
            (false, "docs.example", true),
            (false, "a.docs.example", false),
            (false, "", false),
            (true, "a.docs.example", true),
            (true, "docs.example", false),
            (true, ".docs.example", false),
            (true, "evildocs.example", false),
        ] {
            let fit = scope("docs.example", below).fits(&url(host, ""), &places());
            assert_eq!(fit, fits, "{host}");
        }
        assert!(!scope("docs.example", false).fits(&url("docs.example", "x"), &places()));
    }

    #[test]
    fn all_that_is_said_has_to_fit() {
        let text = |text: &str| vec![text.to_owned()];
        let scope = Scope {
            actions: vec![Action::Shell, Action::Url],
            tools: text("bash"),
            sessions: text("s1"),
            agents: text("copilot"),
            workspaces: vec![PathPattern::new("/work/ws").unwrap()],
            ..Scope::default()
        };
        let fitting = command("git", "push");
        assert!(scope.fits(&fitting, &places()));
        for spoil in [
            |r: &mut Request| r.action = Action::Read,
            |r: &mut Request| r.context.tool = "view".to_owned(),
            |r: &mut Request| r.context.tool = String::new(),
            |r: &mut Request| r.principal.session = "s2".to_owned(),
            |r: &mut Request| r.principal.host = "claude".to_owned(),
            |r: &mut Request| r.context.workspace = "/work/other".to_owned(),
            |r: &mut Request| r.context.workspace = String::new(),
        ] {
            let mut request = fitting.clone();
            spoil(&mut request);
            assert!(!scope.fits(&request, &places()), "{request:?}");
        }
        let entity = Scope {
            entities: text("everest"),
            ..Scope::default()
        };
        assert!(!entity.fits(&fitting, &places()), "of nobody known");
    }
}
