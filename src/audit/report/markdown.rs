//! A report as Markdown: tables that every renderer of them reads, and that a terminal shows well.
//!
//! Texts of the record stand in code spans only, where nothing is markup. What could end a span or a cell
//! stands there as `\u{7c}`.

use std::fmt::Write;

use super::numbers::{
    Amount, Deciding, Decisions, Denied, NeverMatched, Report, Row, Session, Signs, Step, Top,
    Unused,
};
use super::text::{beginning, counted, duration, escaped, grouped, moment, share, step};
use super::words;

/// The longest bar, in characters.
const BAR: u64 = 24;

/// The report as Markdown.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut page = Page(String::new());
    page.head(report);
    page.signs(report);
    page.over_time(report);
    page.latency(report);
    page.policies(report);
    page.exceptions(report);
    page.never_matched(report);
    page.judged(report);
    page.others(report);
    page.0
}

struct Page(String);

impl Page {
    fn line(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push('\n');
    }

    fn section(&mut self, title: &str, about: &str) {
        let _ = write!(self.0, "\n## {title}\n\n{about}\n\n");
    }

    /// `names` of the columns; those that begin with `#` hold numbers.
    fn table(&mut self, names: &[&str], rows: impl Iterator<Item = Vec<String>>) {
        let titles: Vec<&str> = names
            .iter()
            .map(|name| name.trim_start_matches('#'))
            .collect();
        let rules = names.iter().map(|name| match name.starts_with('#') {
            true => "---:",
            false => "---",
        });
        let rules: Vec<&str> = rules.collect();
        self.line(&format!("| {} |", titles.join(" | ")));
        self.line(&format!("| {} |", rules.join(" | ")));
        let mut empty = true;
        for row in rows {
            self.line(&format!("| {} |", row.join(" | ")));
            empty = false;
        }
        if empty {
            let blank = vec![""; names.len().saturating_sub(1)];
            self.line(&format!("| (none) | {} |", blank.join(" | ")));
        }
    }

    fn rest<V>(&mut self, top: &Top<V>) {
        if top.others() > 0 {
            self.line(&format!("\nAnd {} more.", grouped(top.others())));
        }
        if let Some(missed) = words::missed(top.missed) {
            self.line(&format!("\n{missed}"));
        }
    }

    fn head(&mut self, report: &Report) {
        self.line("# The record in short\n");
        self.line(&words::period(report));
        self.line("");
        let Decisions { allow, ask, deny } = report.decisions;
        let total = report.decisions.total();
        let part = |count: u64| vec![grouped(count), share(count, total)];
        let alone = |text: String| vec![text, String::new()];
        let latency = |pick: fn(super::numbers::Latency) -> u64| {
            alone(
                report
                    .latency
                    .map_or_else(|| "–".to_owned(), |all| duration(pick(all))),
            )
        };
        let rows = [
            ("Decisions", alone(grouped(total))),
            ("Allowed", part(allow)),
            ("Asked", part(ask)),
            ("Denied", part(deny)),
            ("Sessions", alone(grouped(report.sessions))),
            ("Machines", alone(grouped(report.hosts.names))),
            ("Values taken out", alone(grouped(report.taken_out))),
            ("Median wait", latency(|all| all.p50)),
            ("99 of 100 within", latency(|all| all.p99)),
        ];
        let rows = rows.into_iter().map(|(name, cells)| {
            let mut row = vec![name.to_owned()];
            row.extend(cells);
            row
        });
        self.table(&["", "#", "#"], rows);
    }

    fn signs(&mut self, report: &Report) {
        let signs = words::signs(report);
        let about = if signs.is_empty() {
            words::quiet(report).1
        } else {
            "The most serious first."
        };
        self.section("What to look at", about);
        for sign in signs {
            self.line(&format!(
                "- **{}: {}** ({}). {} {}",
                sign.title,
                grouped(sign.count),
                sign.level.word(),
                sign.meaning,
                sign.action
            ));
        }
    }

    fn over_time(&mut self, report: &Report) {
        self.section("Decisions over time", &words::over_time(report));
        let over = &report.over_time;
        let most = over.steps.iter().map(|one| one.decisions.total()).max();
        let rows = over.steps.iter().map(|one| {
            let Decisions { allow, ask, deny } = one.decisions;
            vec![
                label(one, over.hours),
                grouped(allow),
                grouped(ask),
                grouped(deny),
                bar(one.decisions.total(), most.unwrap_or(0)),
            ]
        });
        self.table(&["from", "#allow", "#ask", "#deny", "all"], rows);
    }

    fn latency(&mut self, report: &Report) {
        self.section("Latency", words::LATENCY);
        let over = &report.over_time;
        let all = report.latency.iter();
        let all = all.map(|latency| ("all".to_owned(), latency));
        let steps = over.steps.iter().filter_map(|one| {
            let latency = one.latency.as_ref()?;
            Some((label(one, over.hours), latency))
        });
        let rows = all.chain(steps).map(|(name, latency)| {
            let mut row = vec![name];
            row.extend(latency.each().map(|(_, value)| duration(value)));
            row
        });
        self.table(&["from", "#p50", "#p90", "#p99", "#p99.9", "#max"], rows);
    }

    fn policies(&mut self, report: &Report) {
        self.section("Top policies", words::POLICIES);
        self.deciding(&report.policies);
        self.section("Only monitored", words::MONITORED);
        self.deciding(&report.monitored);
        self.denied(
            "Top denied paths",
            words::DENIED_PATHS,
            &report.denied_paths,
        );
        self.denied("Asked", words::ASKED, &report.asked);
    }

    fn deciding(&mut self, top: &Top<Deciding>) {
        let rows = top.rows.iter().map(|row| {
            let Deciding {
                decisions: Decisions { allow, ask, deny },
                file,
                line,
            } = &row.value;
            let numbers = [allow, ask, deny].map(|count| grouped(*count));
            let mut cells = vec![code(&row.name), place(file, *line)];
            cells.extend(numbers);
            cells
        });
        self.table(&["policy", "where", "#allow", "#ask", "#deny"], rows);
        self.rest(top);
    }

    fn exceptions(&mut self, report: &Report) {
        self.section("Exceptions", words::EXCEPTIONS);
        let rows = report.exceptions.rows.iter().map(|row| {
            let one = &row.value;
            let policies: Vec<String> = one.policies.iter().map(|id| code(id)).collect();
            vec![
                code(&row.name),
                code(&one.owner),
                grouped(one.count),
                code(&moment(&one.last)),
                code(&moment(&one.expires)),
                policies.join(", "),
            ]
        });
        let names = [
            "exception",
            "owner",
            "#times",
            "last",
            "expires",
            "left out",
        ];
        self.table(&names, rows);
        self.rest(&report.exceptions);
        self.line(&format!("\n{}", words::unused(report)));
        let Unused::Known { unused, .. } = &report.unused_exceptions else {
            return;
        };
        if unused.is_empty() {
            return;
        }
        self.line("");
        let rows = unused.iter().map(|one| {
            let place = place(&one.file, one.line);
            vec![
                code(&one.id),
                place,
                code(&one.owner),
                code(&moment(&one.expires)),
            ]
        });
        self.table(&["not used", "where", "owner", "expires"], rows);
    }

    fn denied(&mut self, title: &str, about: &str, top: &Top<Denied>) {
        self.section(title, about);
        let most = top.rows.first().map_or(0, |row| row.value.count);
        let rows = top.rows.iter().map(|row| {
            vec![
                code(&row.name),
                code(&row.value.policy),
                grouped(row.value.count),
                bar(row.value.count, most),
            ]
        });
        self.table(&["what", "policy", "#times", ""], rows);
        self.rest(top);
    }

    fn amounts(&mut self, title: &str, about: &str, top: &Top<Amount>) {
        self.section(title, about);
        let most = top.rows.first().map_or(0, |row| row.value.count);
        let rows = top.rows.iter().map(|row| {
            let count = row.value.count;
            vec![code(&row.name), grouped(count), bar(count, most)]
        });
        self.table(&["name", "#times", ""], rows);
        self.rest(top);
    }

    fn never_matched(&mut self, report: &Report) {
        self.section("Policies that never matched", &words::never_matched(report));
        let NeverMatched::Known { unmatched, .. } = &report.never_matched else {
            return;
        };
        let rows = unmatched.iter().map(|policy| {
            let verdict = policy.verdict.to_string();
            let note = if policy.monitor { words::MONITOR } else { "" };
            let place = place(&policy.file, policy.line);
            vec![code(&policy.id), place, verdict, note.to_owned()]
        });
        self.table(&["policy", "where", "says", ""], rows);
    }

    fn judged(&mut self, report: &Report) {
        let about = format!("{} {}", words::UNJUDGED, words::results(report));
        self.amounts(
            "Results without a preceding judgement",
            &about,
            &report.results.tools,
        );
        self.section("Sessions whose guard was off or changed", words::SESSIONS);
        let marked = &report.marked;
        let mut names = vec!["session", "machine", "from", "to"];
        names.extend(["what was found"]);
        let rows = marked.rows.iter().map(|session: &Session| {
            vec![
                code(&session.id),
                code(&session.host),
                code(&moment(&session.first)),
                code(&moment(&session.last)),
                found(session.signs),
            ]
        });
        self.table(&names, rows);
        let others = marked.sessions.saturating_sub(marked.rows.len() as u64);
        if others > 0 {
            self.line(&format!("\nAnd {} more.", grouped(others)));
        }
    }

    fn others(&mut self, report: &Report) {
        self.amounts("Redactions by rule", words::REDACTIONS, &report.redactions);
        self.section("By tool", words::TOOLS);
        let rows = report.tools.rows.iter();
        self.table(
            &["tool", "#allow", "#ask", "#deny"],
            rows.map(|row: &Row<Decisions>| decided(&row.name, None, row.value)),
        );
        self.rest(&report.tools);
        self.section("By kind", words::KINDS);
        let rows = report.kinds.rows.iter();
        self.table(
            &["kind", "#lines", "#allow", "#ask", "#deny"],
            rows.map(|row| decided(&row.name, Some(row.value.lines), row.value.decisions)),
        );
        self.rest(&report.kinds);
        self.section("Faults by class", words::FAULTS);
        let rows = report.faults.rows.iter().map(|row| {
            let (meaning, action) = words::fault(&row.name);
            let times = grouped(row.value.count);
            vec![
                code(&row.name),
                times,
                meaning.to_owned(),
                action.to_owned(),
            ]
        });
        self.table(&["class", "#times", "what it means", "what to do"], rows);
        self.amounts("Machines", words::HOSTS, &report.hosts);
        self.amounts("Policies in force", words::DIGESTS, &report.policy_digests);
        self.amounts("Versions", words::VERSIONS, &report.engine_versions);
        self.line(&format!(
            "\nOne step is {}. Times are UTC. {}",
            step(report.over_time.hours.max(1)),
            words::WHOLE
        ));
    }
}

fn decided(name: &str, lines: Option<u64>, decisions: Decisions) -> Vec<String> {
    let Decisions { allow, ask, deny } = decisions;
    let mut row = vec![code(name)];
    row.extend(lines.into_iter().chain([allow, ask, deny]).map(grouped));
    row
}

fn label(one: &Step, hours: i64) -> String {
    beginning(&one.start, hours)
}

/// `3 unjudged results, 1 policies changed`
fn found(signs: Signs) -> String {
    let signs = words::SIGNS.iter().zip(signs.each());
    let signs = signs.filter(|(_, count)| *count > 0);
    let signs: Vec<String> = signs
        .map(|(name, count)| format!("{name}: {}", grouped(count)))
        .collect();
    signs.join(", ")
}

fn place(file: &str, line: u32) -> String {
    if file.is_empty() {
        return String::new();
    }
    code(&format!("{file}:{line}"))
}

/// A text of the record, where nothing of it is markup.
fn code(text: &str) -> String {
    let shown = escaped(text, &|c| matches!(c, '`' | '|'));
    if shown.is_empty() {
        "(none)".to_owned()
    } else if shown.chars().all(|c| c == ' ') {
        counted(shown.len() as u64, "blank")
    } else {
        format!("`{shown}`")
    }
}

fn bar(part: u64, most: u64) -> String {
    if part == 0 || most == 0 {
        return String::new();
    }
    let length = u128::from(part) * u128::from(BAR) / u128::from(most);
    "█".repeat(usize::try_from(length).unwrap_or_default().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_the_record_is_no_markup() {
        for (text, shown) in [
            ("src/main.rs", "`src/main.rs`"),
            ("[x](http://e) <b> *a* $b$", "`[x](http://e) <b> *a* $b$`"),
            ("a|b`c\\|d", "`a\\u{7c}b\\u{60}c\\\\u{7c}d`"),
            ("a\n\n# b\u{1b}[2J", "`a\\u{a}\\u{a}# b\\u{1b}[2J`"),
            ("\\", "`\\`"),
            ("", "(none)"),
            ("  ", "2 blanks"),
        ] {
            assert_eq!(code(text), shown);
        }
    }

    #[test]
    fn bars_show_the_least_too() {
        assert_eq!(bar(0, 10), "");
        assert_eq!(bar(1, u64::MAX), "█");
        assert_eq!(bar(u64::MAX, u64::MAX).chars().count() as u64, BAR);
    }
}
