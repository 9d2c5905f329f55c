//! The templates, and what each of them does to the default policies.

use super::Change::{Append, NobodyToAsk, Set, Without};
use super::Template;

/// Every template.
pub const TEMPLATES: &[Template] = &[
    Template {
        name: "web-app",
        about: "a developer at work on a web application: own servers and documentation without asking, packages and migrations with",
        changes: &[
            Without(
                "ask-network",
                "web-app.cedar has its own, which knows the documentation.",
            ),
            Without(
                "private-address",
                "web-app.cedar has its own, which knows this machine's servers.",
            ),
            Without("ask-secret-file-read", "web-app.cedar denies it."),
            Without("ask-secret-file-write", "web-app.cedar denies it."),
        ],
        cedar: include_str!("../../../templates/web-app/web-app.cedar"),
        tests: include_str!("../../../templates/web-app/tests.toml"),
    },
    Template {
        name: "hipaa",
        about: "work beside health information: redacted everywhere, nothing leaves, six years of records",
        changes: &[
            Without("network-tools", "nothing may leave."),
            Without("ask-network", "hipaa.cedar denies it."),
            Without("mcp-tools", "nothing may leave."),
            Without("ask-mcp", "hipaa.cedar denies it."),
            Without("ask-publish", "hipaa.cedar denies it."),
            Without("ask-network-command", "hipaa.cedar denies it."),
            Set("bridge.toml", "\ndepth = 3\n", "\ndepth = 2\n"),
            Set(
                "bridge.toml",
                "\ndurability = \"os\"\n",
                "\ndurability = \"sync\"\n",
            ),
            Set(
                "bridge.toml",
                "\nretention_days = 0\n",
                "\n# Six years, as 45 CFR 164.316(b)(2)(i) has it for documentation, and a month.\nretention_days = 2222\n",
            ),
            Append(
                "containment.toml",
                include_str!("../../../templates/hipaa/containment.toml"),
            ),
            Append(
                "entities.toml",
                include_str!("../../../templates/hipaa/entities.toml"),
            ),
        ],
        cedar: include_str!("../../../templates/hipaa/hipaa.cedar"),
        tests: include_str!("../../../templates/hipaa/tests.toml"),
    },
    Template {
        name: "ci-runner",
        about: "a pipeline without anybody to ask: what would be asked is denied",
        changes: &[
            NobodyToAsk,
            Set(
                "permission.cedar",
                "A `forbid` with @decision(\"ask\") asks a person first.",
                "Nobody is there to ask: what asks elsewhere denies.",
            ),
            Without("delegate", "an agent in a pipeline does its work itself."),
            Set("bridge.toml", "    \"ask_user\",\n", ""),
            Set("bridge.toml", "    \"exit_plan_mode\",\n", ""),
            Set("bridge.toml", "\ndepth = 3\n", "\ndepth = 1\n"),
        ],
        cedar: include_str!("../../../templates/ci-runner/ci-runner.cedar"),
        tests: include_str!("../../../templates/ci-runner/tests.toml"),
    },
    Template {
        name: "read-only-reviewer",
        about: "an agent that reads and reports: it changes nothing, and runs only what looks",
        changes: &[
            Without("write-workspace", "a reviewer changes nothing."),
            Without("write-roots", "a reviewer changes nothing."),
            Without(
                "commands",
                "read-only-reviewer.cedar names those that only look.",
            ),
            Append(
                "containment.toml",
                include_str!("../../../templates/read-only-reviewer/containment.toml"),
            ),
        ],
        cedar: include_str!("../../../templates/read-only-reviewer/read-only-reviewer.cedar"),
        tests: include_str!("../../../templates/read-only-reviewer/tests.toml"),
    },
    Template {
        name: "docs-writer",
        about: "an agent that writes documentation: it reads everything, and changes texts and pictures only",
        changes: &[
            Without(
                "write-workspace",
                "docs-writer.cedar permits documentation only.",
            ),
            Without(
                "write-roots",
                "docs-writer.cedar permits documentation only.",
            ),
            Append(
                "containment.toml",
                include_str!("../../../templates/docs-writer/containment.toml"),
            ),
        ],
        cedar: include_str!("../../../templates/docs-writer/docs-writer.cedar"),
        tests: include_str!("../../../templates/docs-writer/tests.toml"),
    },
    Template {
        name: "ted",
        about: "an operator's agents behind Ted's engine: 18 routes as tools, in three tiers, two houses kept apart",
        changes: &[
            Append(
                "entities.toml",
                include_str!("../../../templates/ted/entities.toml"),
            ),
            Append(
                "upstreams.toml",
                include_str!("../../../templates/ted/upstreams.toml"),
            ),
        ],
        cedar: include_str!("../../../templates/ted/ted.cedar"),
        tests: include_str!("../../../templates/ted/tests.toml"),
    },
];
