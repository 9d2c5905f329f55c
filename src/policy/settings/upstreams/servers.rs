//! `[[server]]`: MCP servers behind this program (R-003-65).

use crate::engine::upstream::{Server, ServerTool, Upstreams};
use crate::policy::diagnostic::{Code, Problem, quote};
use crate::policy::settings::table::{Key, Merge, Reader, Table, key};

/// The keys of `[[server]]`.
pub(crate) const SERVER: &[Key] = &[
    key("name", Merge::PerFile),
    key("trust", Merge::PerFile),
    key("tool", Merge::PerFile),
];

/// The keys of `[[server.tool]]`.
pub(crate) const TOOL: &[Key] = &[
    key("name", Merge::PerFile),
    key("access", Merge::PerFile),
    key("mode", Merge::PerFile),
];

/// How far a server may be trusted.
pub(crate) const TRUST: [(&str, &str); 3] = [
    ("sandboxed", "sandboxed"),
    ("trusted_read", "trusted_read"),
    ("trusted_write", "trusted_write"),
];

/// What a tool may do.
pub(crate) const ACCESS: [(&str, &str); 3] = [
    ("read_only", "read_only"),
    ("approval_required", "approval_required"),
    ("deny", "deny"),
];

/// The modes of the autonomy ladder (R-003-42).
pub(crate) const MODES: [(&str, &str); 5] = [
    ("autonomous", "autonomous"),
    ("draft_only", "draft_only"),
    ("propose_certify_apply", "propose_certify_apply"),
    ("blocked", "blocked"),
    ("never", "never"),
];

/// Adds the file's servers.
pub(super) fn apply(upstreams: &mut Upstreams, root: &Table<'_>, reader: &mut Reader<'_>) {
    for table in root.tables("server", reader) {
        table.check(SERVER, reader);
        let Some(name) = table.required_text("name", reader) else {
            continue;
        };
        if upstreams
            .servers
            .iter()
            .map(|one| &one.name)
            .chain(upstreams.services.iter().map(|one| &one.name))
            .any(|one| one == name.get_ref())
        {
            let text = format!("there is another server `{}`", quote(name.get_ref()));
            reader.push(name.span(), Problem::error(Code::DuplicateId, text));
        }
        // Nobody is trusted who is not said to be.
        let trust = word(&table, "trust", &TRUST, reader).unwrap_or("sandboxed");
        let tools = table.tables("tool", reader);
        let tools = tools.iter().filter_map(|table| {
            table.check(TOOL, reader);
            let name = table.required_text("name", reader)?;
            let access = word(table, "access", &ACCESS, reader).unwrap_or_default();
            let mode = word(table, "mode", &MODES, reader).unwrap_or_default();
            Some(ServerTool {
                name: name.into_inner(),
                access: access.to_owned(),
                mode: mode.to_owned(),
            })
        });
        let tools = tools.collect();
        upstreams.servers.push(Server {
            name: name.into_inner(),
            trust: trust.to_owned(),
            tools,
        });
    }
}

/// One of several words, if the key is there.
pub(super) fn word(
    table: &Table<'_>,
    name: &str,
    words: &[(&'static str, &'static str)],
    reader: &mut Reader<'_>,
) -> Option<&'static str> {
    table
        .choice(name, words, reader)
        .map(toml::Spanned::into_inner)
}
