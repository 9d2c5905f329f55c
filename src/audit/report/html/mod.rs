//! A report as one page that needs nothing besides: no script, no network, no other file.

mod chart;
mod style;

use data_encoding::BASE64;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use super::numbers::{
    Amount, Deciding, Decisions, Denied, Latency, NeverMatched, Report, Session, Signs, Top, Unused,
};
use super::text::{beginning, counted, duration, grouped, moment, share, visible};
use super::words::{self, Level};
use style::STYLE;

/// So many sessions are shown.
const SESSIONS: usize = 20;

/// The report as a page.
#[must_use]
pub fn render(report: &Report) -> String {
    let style = BASE64.encode(&Sha256::digest(STYLE));
    // Whatever got into the page: nothing is run, fetched, framed or sent.
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'"
    );
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                meta name="color-scheme" content="light dark";
                title { "The record in short" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    header {
                        h1 { "The record in short" }
                        p.about { (words::period(report)) }
                    }
                    (facts(report))
                    (signs(report))
                    (over_time(report))
                    div.grid {
                        (latency(report))
                        (policies("Top policies", words::POLICIES, &report.policies))
                        (policies("Only monitored", words::MONITORED, &report.monitored))
                        (exceptions(report))
                        (denied("Top denied paths", words::DENIED_PATHS, &report.denied_paths, "deny-fill"))
                        (denied("Asked", words::ASKED, &report.asked, "ask-fill"))
                        (tools(report))
                        (kinds(report))
                        (amounts("Redactions by rule", words::REDACTIONS, &report.redactions))
                        (faults(report))
                        (sessions(report))
                        (unjudged(report))
                        (never_matched(report))
                        (amounts("Machines", words::HOSTS, &report.hosts))
                        (amounts("Policies in force", words::DIGESTS, &report.policy_digests))
                        (amounts("Versions", words::VERSIONS, &report.engine_versions))
                    }
                    footer {
                        p { "Times are UTC. " (coded(words::WHOLE)) }
                    }
                }
            }
        }
    };
    page.into_string()
}

fn facts(report: &Report) -> Markup {
    let Decisions { allow, ask, deny } = report.decisions;
    let total = report.decisions.total();
    let wait = |pick: fn(Latency) -> u64| {
        let latency = report.latency.map(pick).map(duration);
        latency.unwrap_or_else(|| "–".to_owned())
    };
    let of = |count: u64| format!("{} of all", share(count, total));
    let machines = counted(report.hosts.names, "machine");
    let facts = [
        (
            "",
            "Decisions",
            grouped(total),
            counted(report.lines, "line"),
        ),
        ("allow", "Allowed", grouped(allow), of(allow)),
        ("ask", "Asked", grouped(ask), of(ask)),
        ("deny", "Denied", grouped(deny), of(deny)),
        (
            "",
            "Sessions",
            grouped(report.sessions),
            format!("on {machines}"),
        ),
        (
            "",
            "Taken out",
            grouped(report.taken_out),
            "by redaction".to_owned(),
        ),
        (
            "",
            "Median wait",
            wait(|all| all.p50),
            "half are faster".to_owned(),
        ),
        (
            "",
            "Longer wait",
            wait(|all| all.p99),
            "1 of 100 is slower".to_owned(),
        ),
    ];
    html! {
        dl.facts {
            @for (class, name, value, note) in facts {
                div class=[(!class.is_empty()).then_some(class)] {
                    dt { (name) }
                    dd { (value) small { (note) } }
                }
            }
        }
    }
}

const fn class(level: Level) -> &'static str {
    match level {
        Level::Alarm => "alarm",
        Level::Warning => "warning",
        Level::Note => "note",
    }
}

fn signs(report: &Report) -> Markup {
    let signs = words::signs(report);
    let (good, quiet) = words::quiet(report);
    html! {
        section.card.long {
            h2 { "What to look at" }
            ul.signs {
                @if signs.is_empty() {
                    li.quiet.good[good] { (coded(quiet)) }
                }
                @for sign in signs {
                    li class=(class(sign.level)) {
                        span.count { (grouped(sign.count)) }
                        div {
                            b { (sign.title) } span.level { (sign.level.word()) }
                            small { (coded(sign.meaning)) " " (coded(sign.action)) }
                        }
                    }
                }
            }
        }
    }
}

fn over_time(report: &Report) -> Markup {
    let over = &report.over_time;
    let rows = over.steps.iter().map(|one| {
        let Decisions { allow, ask, deny } = one.decisions;
        html! {
            td.time { (beginning(&one.start, over.hours)) }
            @for count in [allow, ask, deny] { td.number { (grouped(count)) } }
        }
    });
    card(
        "wide",
        "Decisions over time",
        &words::over_time(report),
        html! {
            @if over.steps.is_empty() { (nothing()) } @else {
                figure {
                    (legend(&[("allow", "allowed"), ("ask", "asked"), ("deny", "denied")]))
                    (chart::decisions(over))
                }
                details {
                    summary { "The same as a table" }
                    (table(&["from", "#allowed", "#asked", "#denied"], rows))
                }
            }
        },
    )
}

fn latency(report: &Report) -> Markup {
    let over = &report.over_time;
    let cells = |latency: &Latency| {
        html! { @for (_, value) in latency.each() { td.number { (duration(value)) } } }
    };
    let steps = over.steps.iter().filter_map(|one| {
        let latency = one.latency.as_ref()?;
        Some(html! { td.time { (beginning(&one.start, over.hours)) } (cells(latency)) })
    });
    card(
        "wide",
        "Latency",
        words::LATENCY,
        match &report.latency {
            None => nothing(),
            Some(latency) => html! {
                figure {
                    (legend(&[("p50", "p50: half are faster"), ("p90", "p90: 90 of 100 are"), ("p99", "p99: 99 of 100 are")]))
                    (chart::latencies(over))
                }
                (table(
                    &["", "#p50", "#p90", "#p99", "#p99.9", "#max"],
                    std::iter::once(html! { td { "whole period" } (cells(latency)) }),
                ))
                details {
                    summary { "Over time as a table" }
                    (table(&["from", "#p50", "#p90", "#p99", "#p99.9", "#max"], steps))
                }
            },
        },
    )
}

fn tools(report: &Report) -> Markup {
    let most = report.tools.rows.iter().map(|row| row.value.total()).max();
    let rows = report
        .tools
        .rows
        .iter()
        .map(|row| decided(code(&row.name), row.value, most.unwrap_or(0)));
    card(
        "",
        "By tool",
        words::TOOLS,
        html! {
            (table(&["tool", "#allowed", "#asked", "#denied", "bars"], rows))
            (rest(&report.tools))
        },
    )
}

fn kinds(report: &Report) -> Markup {
    let most = report.kinds.rows.iter().map(|row| row.value.lines).max();
    let rows = report.kinds.rows.iter().map(|row| {
        let shown = if row.value.decisions.total() > 0 {
            parts(row.value.decisions).to_vec()
        } else {
            vec![(row.value.lines, "plain-fill")]
        };
        html! {
            td { (code(&row.name)) }
            td.number { (grouped(row.value.lines)) }
            td.bars { (chart::bar(&shown, most.unwrap_or(0))) }
        }
    });
    card(
        "",
        "By kind",
        words::KINDS,
        html! { (table(&["kind", "#lines", "bars"], rows)) (rest(&report.kinds)) },
    )
}

fn policies(title: &str, about: &str, top: &Top<Deciding>) -> Markup {
    let rows = &top.rows;
    let most = rows.iter().map(|row| row.value.decisions.total()).max();
    let rows = rows.iter().map(|row| {
        let name = html! {
            (code(&row.name))
            (place(&row.value.file, row.value.line))
        };
        decided(name, row.value.decisions, most.unwrap_or(0))
    });
    card(
        "wide",
        title,
        about,
        html! {
            (table(&["policy", "#allowed", "#asked", "#denied", "bars"], rows))
            (rest(top))
        },
    )
}

fn exceptions(report: &Report) -> Markup {
    let rows = report.exceptions.rows.iter().map(|row| {
        let one = &row.value;
        html! {
            td { (code(&row.name)) @for policy in &one.policies { small { (code(policy)) } } }
            td { (code(&one.owner)) }
            td.number { (grouped(one.count)) }
            td.time { (moment(&one.last)) }
            td.time { (moment(&one.expires)) }
        }
    });
    let unused = match &report.unused_exceptions {
        Unused::Known { unused, .. } => unused.as_slice(),
        Unused::NotGiven | Unused::Broken => &[],
    };
    let others = unused.iter().map(|one| {
        html! {
            td { (code(&one.id)) (place(&one.file, one.line)) }
            td { (code(&one.owner)) }
            td.time { (moment(&one.expires)) }
        }
    });
    card(
        "wide",
        "Exceptions",
        words::EXCEPTIONS,
        html! {
            (table(&["exception, and what it left out", "owner", "#times", "last", "expires"], rows))
            (rest(&report.exceptions))
            p.about { (coded(&words::unused(report))) }
            @if !unused.is_empty() { (table(&["not used", "owner", "expires"], others)) }
        },
    )
}

fn denied(title: &str, about: &str, top: &Top<Denied>, fill: &'static str) -> Markup {
    let most = top.rows.first().map_or(0, |row| row.value.count);
    let rows = top.rows.iter().map(|row| {
        html! {
            td { (code(&row.name)) @if !row.value.policy.is_empty() { small { (code(&row.value.policy)) } } }
            td.number { (grouped(row.value.count)) }
            td.bars { (chart::bar(&[(row.value.count, fill)], most)) }
        }
    });
    card(
        "",
        title,
        about,
        html! { (table(&["what, and the policy", "#times", "bars"], rows)) (rest(top)) },
    )
}

fn amounts(title: &str, about: &str, top: &Top<Amount>) -> Markup {
    card("", title, about, html! { (counts(top)) (rest(top)) })
}

fn counts(top: &Top<Amount>) -> Markup {
    let most = top.rows.first().map_or(0, |row| row.value.count);
    let rows = top.rows.iter().map(|row| {
        html! {
            td { (code(&row.name)) }
            td.number { (grouped(row.value.count)) }
            td.bars { (chart::bar(&[(row.value.count, "plain-fill")], most)) }
        }
    });
    table(&["name", "#times", "bars"], rows)
}

fn never_matched(report: &Report) -> Markup {
    let about = words::never_matched(report);
    let NeverMatched::Known { unmatched, .. } = &report.never_matched else {
        return card("", "Policies that never matched", &about, html! {});
    };
    let rows = unmatched.iter().map(|policy| {
        html! {
            td {
                (code(&policy.id))
                (place(&policy.file, policy.line))
                @if policy.monitor { small { (words::MONITOR) } }
            }
            td { (policy.verdict) }
        }
    });
    card(
        "long",
        "Policies that never matched",
        &about,
        table(&["policy", "says"], rows),
    )
}

fn unjudged(report: &Report) -> Markup {
    let about = format!("{} {}", words::UNJUDGED, words::results(report));
    amounts(
        "Results without a preceding judgement",
        &about,
        &report.results.tools,
    )
}

fn sessions(report: &Report) -> Markup {
    let marked = &report.marked;
    let rows = marked.rows.iter().take(SESSIONS).map(|session: &Session| {
        html! {
            td { (code(&session.id)) small { (code(&session.host)) } }
            td.time { (moment(&session.first)) small { "to " (moment(&session.last)) } }
            td.number { (grouped(session.lines)) }
            td { (found(session.signs)) }
        }
    });
    let shown = marked.rows.len().min(SESSIONS) as u64;
    let others = marked.sessions - shown;
    card(
        "wide long",
        "Sessions whose guard was off or changed",
        words::SESSIONS,
        html! {
            (table(&["session, and its machine", "from", "#lines", "what was found"], rows))
            @if others > 0 { p.rest { "And " (grouped(others)) " more." } }
        },
    )
}

fn found(signs: Signs) -> Markup {
    let all = words::SIGNS.iter().zip(signs.each()).enumerate();
    html! {
        @for (index, (name, count)) in all {
            @if count > 0 {
                span class={ "tag " (if index < 2 { "alarm" } else if index < 6 { "warning" } else { "" }) } {
                    (name) ": " (grouped(count))
                }
            }
        }
    }
}

fn faults(report: &Report) -> Markup {
    let most = report.faults.rows.first().map_or(0, |row| row.value.count);
    let rows = report.faults.rows.iter().map(|row| {
        let (meaning, action) = words::fault(&row.name);
        html! {
            td { (code(&row.name)) small { (meaning) " " (coded(action)) } }
            td.number { (grouped(row.value.count)) }
            td.bars { (chart::bar(&[(row.value.count, "deny-fill")], most)) }
        }
    });
    card(
        "",
        "Faults by class",
        words::FAULTS,
        table(&["class", "#times", "bars"], rows),
    )
}

const fn parts(decisions: Decisions) -> [(u64, &'static str); 3] {
    [
        (decisions.deny, "deny-fill"),
        (decisions.ask, "ask-fill"),
        (decisions.allow, "allow-fill"),
    ]
}

fn decided(name: Markup, decisions: Decisions, most: u64) -> Markup {
    let Decisions { allow, ask, deny } = decisions;
    html! {
        td { (name) }
        @for count in [allow, ask, deny] { td.number { (grouped(count)) } }
        td.bars { (chart::bar(&parts(decisions), most)) }
    }
}

fn card(classes: &str, title: &str, about: &str, inner: Markup) -> Markup {
    html! {
        section class={ "card " (classes) } {
            h2 { (title) }
            p.about { (coded(about)) }
            (inner)
        }
    }
}

/// A table; `names` that begin with `#` are of columns that hold numbers, `bars` has no name.
fn table(names: &[&str], rows: impl Iterator<Item = Markup>) -> Markup {
    let rows: Vec<Markup> = rows.collect();
    if rows.is_empty() {
        return nothing();
    }
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        @for name in names {
                            @if *name == "bars" { th aria-hidden="true" {} }
                            @else if let Some(name) = name.strip_prefix('#') { th.number scope="col" { (name) } }
                            @else { th scope="col" { (name) } }
                        }
                    }
                }
                tbody { @for row in rows { tr { (row) } } }
            }
        }
    }
}

fn nothing() -> Markup {
    html! { p.none { "None." } }
}

fn rest<V>(top: &Top<V>) -> Markup {
    html! {
        @if top.others() > 0 { p.rest { "And " (grouped(top.others())) " more." } }
        @if let Some(missed) = words::missed(top.missed) { p.rest { (missed) } }
    }
}

fn legend(entries: &[(&str, &str)]) -> Markup {
    html! {
        p.legend {
            @for (class, name) in entries { span { i class=(class) aria-hidden="true" {} (name) } }
        }
    }
}

/// A text of the record.
fn code(text: &str) -> Markup {
    html! {
        @if text.is_empty() { span.none { "(none)" } } @else { code { (visible(text)) } }
    }
}

fn place(file: &str, line: u32) -> Markup {
    html! {
        @if !file.is_empty() { small { (code(&format!("{file}:{line}"))) } }
    }
}

/// A sentence of ours: what stands in backticks is code.
fn coded(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}
