//! The paths and addresses among a call's arguments, as requests.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use super::commands::COMMAND_KEYS;
use super::{Asker, Fault, display, distinct, input};
use crate::engine::action::Action;
use crate::engine::containment::{FOUND, HARD_LINK, Inside, MOUNT};
use crate::engine::request::{Context, PathFacts, Request, Resource};
use crate::facts::arguments::{self, Taker};
use crate::facts::names::{Names, mount};
use crate::facts::paths::{Resolved, lexical};
use crate::facts::readings::{Ground, Readings, is_file_uri};
use crate::facts::tools::{self, Tool};
use crate::facts::{globs, patch, url};
use crate::gate::event::ToolCall;

/// The keys that hold a glob, of the tools that search.
const GLOB_KEYS: [&str; 8] = [
    "pattern",
    "patterns",
    "query",
    "glob",
    "globs",
    "globPattern",
    "include",
    "includePattern",
];

/// The keys of a search that say what to look for in the files, or what to leave out.
const SEARCH_KEYS: [&str; 7] = [
    "pattern",
    "query",
    "regex",
    "exclude",
    "excludes",
    "excludePattern",
    "type",
];

/// The keys that hold addresses, whatever their texts look like.
const URL_KEYS: [&str; 7] = ["url", "urls", "uri", "href", "link", "links", "address"];

impl Asker<'_> {
    /// The paths of a tool that reads or writes files.
    pub(super) fn paths(
        &self,
        tool: &Tool,
        call: &ToolCall,
        context: &Context,
        requests: &mut Vec<Request>,
    ) -> Result<(), Fault> {
        let searches = tool.operation == "list";
        let taker = if searches { Taker::May } else { Taker::Needs };
        let others: &[&str] = match tool.facts.name.as_str() {
            "glob" => &GLOB_KEYS,
            "grep" => &[GLOB_KEYS.as_slice(), &SEARCH_KEYS].concat(),
            _ => &[],
        };
        let mut given = self.arguments(&call.args, taker, others)?;
        if searches {
            let bases = self.search_bases(tool, call, &given)?;
            given.extend(bases);
            // A search without a path searches the working directory.
            if given.is_empty() {
                given.push(".".to_owned());
            }
        }
        for path in distinct(given)? {
            requests.push(self.argument(tool.action, &path, context));
        }
        Ok(())
    }

    /// The paths of a tool that nobody knows: it is taken to write, and to apply what is a patch.
    pub(super) fn foreign_paths(
        &self,
        call: &ToolCall,
        context: &Context,
        requests: &mut Vec<Request>,
    ) -> Result<(), Fault> {
        for given in self.arguments(&call.args, Taker::Foreign, &[])? {
            requests.push(self.argument(Action::Write, &given, context));
        }
        let mut texts = Vec::new();
        tools::texts(&call.args, &mut texts);
        for text in texts.into_iter().filter(|text| patch::is_patch(text)) {
            // What is no patch after all is a text like any other.
            for change in distinct(patch::changes(text).unwrap_or_default())? {
                requests.push(self.change(&change, context));
            }
        }
        Ok(())
    }

    /// Where a shell is to run, and whatever else stands beside its command line.
    pub(super) fn shell_paths(
        &self,
        call: &ToolCall,
        context: &Context,
        requests: &mut Vec<Request>,
    ) -> Result<(), Fault> {
        if call.args.is_string() {
            return Ok(());
        }
        for given in self.arguments(&call.args, Taker::May, &COMMAND_KEYS)? {
            requests.push(self.argument(Action::Read, &given, context));
        }
        Ok(())
    }

    /// The folders that the call may run in: the one that it names, else the session's.
    pub(super) fn shell_cwd(&self, requests: &[Request]) -> PathBuf {
        requests
            .iter()
            .find_map(|request| match &request.resource {
                Resource::Path(facts) if facts.fault.is_empty() => {
                    Some(PathBuf::from(&facts.resolved))
                }
                _ => None,
            })
            .unwrap_or_else(|| self.workspace.cwd.clone())
    }

    pub(super) fn patch(
        &self,
        call: &ToolCall,
        context: &Context,
        requests: &mut Vec<Request>,
    ) -> Result<(), Fault> {
        const KEYS: [&str; 3] = ["input", "patch", "diff"];
        let patches: Vec<&str> = match &call.args {
            Value::String(patch) => vec![patch],
            Value::Object(fields) => KEYS
                .iter()
                .filter_map(|key| fields.get(*key)?.as_str())
                .collect(),
            _ => Vec::new(),
        };
        if patches.is_empty() {
            return Err(input("`apply_patch` comes without a patch"));
        }
        for patch in patches {
            let changes = patch::changes(patch).map_err(|error| input(&error))?;
            for change in distinct(changes)? {
                requests.push(self.change(&change, context));
            }
        }
        if call.args.is_object() {
            for given in self.arguments(&call.args, Taker::May, &KEYS)? {
                requests.push(self.argument(Action::Write, &given, context));
            }
        }
        Ok(())
    }

    pub(super) fn addresses(
        &self,
        tool: &Tool,
        call: &ToolCall,
        context: &Context,
        requests: &mut Vec<Request>,
    ) -> Result<(), Fault> {
        let mut given = Vec::new();
        addresses(&call.args, false, &mut given);
        if given.is_empty() && tool.facts.name == "web_fetch" {
            return Err(input("the call names no address"));
        }
        for given in distinct(given)? {
            if is_file_uri(given.trim()) {
                requests.push(self.argument(Action::Read, given, context));
            }
            let facts = Resource::Url(url::facts(given));
            requests.push(self.ask(Action::Url, facts, context));
        }
        Ok(())
    }

    /// What stands at a path.
    pub(super) fn path_facts(&self, given: &str) -> PathFacts {
        self.facts_of(given, self.workspace.resolve(given, self.home))
    }

    /// The facts about a path that was resolved from somewhere.
    pub(super) fn facts_of(&self, given: &str, resolved: Resolved) -> PathFacts {
        let target = display(&resolved.target);
        let mut labels = self.bundle.settings.containment.path_labels(
            &target,
            &display(&resolved.written),
            &self.places,
        );
        labels.extend(resolved.kind.map(str::to_owned));
        let inside = resolved.fault.is_none() && self.inside(&resolved, &mut labels);
        PathFacts {
            given: given.to_owned(),
            inside,
            exists: resolved.exists,
            link: resolved.link,
            fault: resolved.fault.unwrap_or_default(),
            resolved: target,
            labels,
        }
    }

    /// Whether a path leads into the workspace, by any of its names; what its other names carry and
    /// where it lies are labels of it.
    fn inside(&self, resolved: &Resolved, labels: &mut BTreeSet<String>) -> bool {
        let tables = &self.bundle.settings.containment;
        let target = &resolved.target;
        let names = self.names.get_or_init(|| {
            let forbidden = tables.forbidden(&self.places).map(PathBuf::from);
            Names::of(forbidden.chain(self.workspace.root.clone()))
        });
        let hard_link = resolved.kind == Some(HARD_LINK);
        let mut inside = self.workspace.contains(target);
        for other in names.others(target, hard_link) {
            let name = display(&other);
            labels.extend(tables.path_labels(&name, &name, &self.places));
            inside |= self.workspace.contains(&other);
        }
        let Some(root) = self.workspace.root.as_deref().filter(|_| inside) else {
            return false;
        };
        let mounted = mount(target) != *self.mount.get_or_init(|| mount(root));
        if mounted {
            labels.insert(MOUNT.to_owned());
        }
        !(mounted && tables.mounts == Inside::Outside
            || hard_link && tables.hard_links == Inside::Outside)
    }

    fn arguments(&self, args: &Value, taker: Taker, others: &[&str]) -> Result<Vec<String>, Fault> {
        let data = &self.bundle.settings.containment.data_keys;
        let data: Vec<&str> = data
            .iter()
            .map(String::as_str)
            .chain(others.iter().copied())
            .collect();
        let found = arguments::paths(args, taker, &data);
        match found.fault {
            Some(fault) => Err(input(&fault)),
            None => distinct(found.paths),
        }
    }

    /// The folders that the globs of a search start from.
    fn search_bases(
        &self,
        tool: &Tool,
        call: &ToolCall,
        from: &[String],
    ) -> Result<Vec<String>, Fault> {
        let grep = tool.facts.name == "grep";
        let keys: &[&str] = match tool.facts.name.as_str() {
            "glob" => &GLOB_KEYS,
            // What `grep` has under the others is what it looks for.
            "grep" => GLOB_KEYS.get(3..).unwrap_or_default(),
            _ => &[],
        };
        let mut texts = Vec::new();
        for key in keys {
            tools::texts(call.args.get(*key).unwrap_or(&Value::Null), &mut texts);
        }
        let mut all = Vec::new();
        for glob in texts {
            // What is left out is not searched.
            if glob.starts_with('!') && !glob.starts_with("!(") {
                continue;
            }
            let readings = Readings::of(glob, &self.ground());
            if readings.fault.is_some() {
                all.push(glob.to_owned());
            }
            for reading in [glob]
                .into_iter()
                .chain(readings.texts.iter().map(String::as_str))
            {
                let bases = globs::bases(reading).map_err(|error| input(&error))?;
                let wanted = |base: &String| !(base.is_empty() || grep && is_anchored(base));
                for base in bases.into_iter().filter(wanted) {
                    if from.is_empty() || base.starts_with(['/', '~']) {
                        all.push(base);
                    } else {
                        all.extend(from.iter().map(|from| format!("{from}/{base}")));
                    }
                }
            }
        }
        Ok(all)
    }

    fn ground(&self) -> Ground<'_> {
        Ground {
            cwd: &self.workspace.cwd,
            home: self.home,
        }
    }

    fn change(&self, change: &patch::Change, context: &Context) -> Request {
        let context = Context {
            operation: change.operation.to_owned(),
            ..context.clone()
        };
        let action = match change.operation {
            "read" => Action::Read,
            _ => Action::Write,
        };
        let Some(dir) = &change.link_in else {
            return self.argument(action, &change.path, &context);
        };
        let dir = self.workspace.resolve(dir, self.home);
        let aim = dir.target.join(&change.path);
        // A folder that the patch makes is no link: `..` leads out of it as it stands.
        let aim = if dir.exists { aim } else { lexical(&aim) };
        self.argument(action, &display(&aim), &context)
    }

    /// A path that a tool may trim, decode or expand before it asks the kernel. If that leads to
    /// something else, the strictest reading counts, and there is a fault.
    pub(super) fn argument(&self, action: Action, given: &str, context: &Context) -> Request {
        let readings = Readings::of(given, &self.ground());
        let mut facts = if is_file_uri(given) && readings.fault.is_none() {
            None
        } else {
            Some(self.path_facts(given))
        };
        let mut apart = None;
        for text in &readings.texts {
            if is_file_uri(text.trim()) {
                continue;
            }
            let other = self.path_facts(text);
            let Some(known) = &facts else {
                facts = Some(other);
                continue;
            };
            if !agree(known, &other) {
                apart.get_or_insert_with(|| format!("it may be read as `{text}`"));
                if strictness(&other) > strictness(known) {
                    facts = Some(other);
                }
            }
        }
        let mut facts = facts.unwrap_or_else(|| self.path_facts(given));
        given.clone_into(&mut facts.given);
        if facts.fault.is_empty() {
            let fault = readings.fault.map(str::to_owned).or(apart);
            facts.fault = fault.unwrap_or_default();
        }
        facts.inside &= facts.fault.is_empty();
        self.ask(action, Resource::Path(facts), context)
    }
}

/// Whether two readings of a text are the same to every policy that asks where a path leads.
fn agree(one: &PathFacts, other: &PathFacts) -> bool {
    one.inside == other.inside
        && one.fault.is_empty() == other.fault.is_empty()
        && labels(one) == labels(other)
}

fn strictness(facts: &PathFacts) -> (bool, bool, usize) {
    let labels = labels(facts).len();
    (!facts.fault.is_empty(), !facts.inside, labels)
}

/// The labels but for what kind of file is there.
fn labels(facts: &PathFacts) -> BTreeSet<&str> {
    facts
        .labels
        .iter()
        .map(String::as_str)
        .filter(|label| !FOUND.contains(label))
        .collect()
}

/// Whether a glob's `/` can only mean the root of the search: nothing of that name is in `/`.
fn is_anchored(base: &str) -> bool {
    let Some(rest) = base.strip_prefix('/') else {
        return false;
    };
    let top = rest.split('/').next().unwrap_or_default();
    top != ".."
        && std::path::Path::new("/")
            .join(top)
            .symlink_metadata()
            .is_err()
}

/// The texts that are addresses: all under a key that says so, elsewhere what is nothing else.
fn addresses<'a>(value: &'a Value, named: bool, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) if named || url::is_address(text) => found.push(text),
        Value::Array(all) => all.iter().for_each(|value| addresses(value, named, found)),
        Value::Object(fields) => {
            for (key, value) in fields {
                let named = named || URL_KEYS.iter().any(|url| url.eq_ignore_ascii_case(key));
                addresses(value, named, found);
            }
        }
        _ => {}
    }
}
