//! `upstreams.toml`

use super::Document;
use super::shape::{Shape, Table, field, format, words};
use crate::policy::settings::upstreams::KEYS;
use crate::policy::settings::upstreams::servers::{
    ACCESS, MODES, SERVER, TOOL as OF_SERVER, TRUST,
};
use crate::policy::settings::upstreams::services::{
    AUTH, METHODS, RESOURCE, SERVICE, TIERS, TIMEOUT, TOOL,
};

/// A name that MCP clients take.
const NAME: Shape = Shape::Form("^[A-Za-z0-9_.-]{1,128}$");

/// A path with places for parameters.
const ROUTE: Shape =
    Shape::Form(r"^/$|^(/(\{[A-Za-z0-9_]+\}|(?!\.{1,2}(/|$))[A-Za-z0-9._~!$&'()*+,;=:@-]+))+$");

pub(super) fn document() -> Document {
    Document {
        name: "upstreams",
        files: "upstreams.toml",
        about: "What stands behind this program: HTTP services whose routes are tools, and MCP servers.",
        root: Table::new(
            KEYS,
            [
                format(),
                field(
                    "service",
                    Shape::Tables(service()),
                    "An HTTP service whose routes are tools and resources.",
                ),
                field(
                    "server",
                    Shape::Tables(server()),
                    "An MCP server behind this program.",
                ),
            ],
        ),
    }
}

fn service() -> Table {
    Table::new(
        SERVICE,
        [
            field("name", NAME, "The server of its tools, in policies and in the record.")
                .required(),
            field(
                "url",
                Shape::Form(
                    r"^(https://[^\s@?#]+|http://(localhost|127(\.[0-9]{1,3}){3}|\[::1\])([:/][^\s@?#]*)?)$",
                ),
                "What routes stand behind, without secrets: `https://`, or `http://` on this machine.",
            )
            .required(),
            field(
                "auth",
                Shape::Table(auth()),
                "How the service is told who calls.",
            ),
            field(
                "timeout_seconds",
                Shape::Number(TIMEOUT),
                "How long a call may take.",
            )
            .default(30),
            field("tool", Shape::Tables(tool()), "A route, as a tool."),
            field(
                "resource",
                Shape::Tables(resource()),
                "A route or a file, as a resource.",
            ),
        ],
    )
}

fn auth() -> Table {
    Table::new(
        AUTH,
        [
            field("header", Shape::Form("^[A-Za-z0-9-]+$"), "The header.").default("Authorization"),
            field(
                "scheme",
                Shape::Form("^[A-Za-z0-9-]*$"),
                "What stands in front of the secret; may be empty.",
            )
            .default("Bearer"),
            field(
                "variables",
                Shape::Several(Box::new(Shape::Form("^[A-Za-z0-9_]+$"))),
                "Variables of the environment: the first that is set holds the secret.",
            )
            .required(),
        ],
    )
}

fn tool() -> Table {
    let text = Shape::Text;
    Table::new(
        TOOL,
        [
            field("name", NAME, "The name that clients call it by.").required(),
            field("description", Shape::Filled, "What models are told of it.").required(),
            words("method", &METHODS, "How the route is called.").required(),
            field(
                "route",
                ROUTE,
                "The path behind the service's address; `{input}` is a part of it that the call fills in.",
            )
            .required(),
            words("tier", &TIERS, "What it does: autonomy.cedar says what follows.").required(),
            words("mode", &MODES, "How far it may go by itself."),
            field("entity", text, "The input that says whose data it is about."),
            field("inputs", Shape::Schemas, "The JSON Schema of each argument."),
            field(
                "required",
                Shape::Texts(Box::new(Shape::Text)),
                "The inputs that every call has.",
            ),
        ],
    )
}

fn resource() -> Table {
    Table::new(
        RESOURCE,
        [
            field(
                "uri",
                Shape::Form(
                    r"^(?!bridge:)[a-z][a-z0-9+.-]*:/(/(\{[A-Za-z0-9_]+\}|(?!\.{1,2}(/|$))[A-Za-z0-9._~!$&'()*+,;=:@-]+))+$",
                ),
                "Its address; `{parameter}` is a part of it that its readers fill in.",
            )
            .required(),
            field("name", Shape::Filled, "What clients call it.").required(),
            field("description", Shape::Text, "What clients are told of it."),
            field("media_type", Shape::Text, "What it is.").default("application/json"),
            field("route", ROUTE, "The route that it is read from."),
            field(
                "file",
                Shape::Form(r"^(/(?!\.{1,2}(/|$))[^/\x00]+)+$"),
                "The file that it is, by its absolute path.",
            ),
        ],
    )
    .with_one_of(&["route", "file"])
}

fn server() -> Table {
    Table::new(
        SERVER,
        [
            field(
                "name",
                Shape::Filled,
                "The server of its tools, in policies and in the record.",
            )
            .required(),
            words("trust", &TRUST, "How far it is trusted.").default("sandboxed"),
            field(
                "tool",
                Shape::Tables(of_server()),
                "What is said of one of its tools.",
            ),
        ],
    )
}

fn of_server() -> Table {
    Table::new(
        OF_SERVER,
        [
            field("name", Shape::Filled, "The tool, as its server calls it.").required(),
            words(
                "access",
                &ACCESS,
                "What it may do. A person approves each call where it is not said.",
            ),
            words("mode", &MODES, "How far it may go by itself."),
        ],
    )
}
