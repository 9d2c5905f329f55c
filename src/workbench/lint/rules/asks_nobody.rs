//! A policy that asks only where nobody can be asked.

use crate::engine::bundle::Verdict;
use crate::policy::{Code, Problem};
use crate::workbench::lint::Rule;
use crate::workbench::lint::desk::{Case, Desk};
use crate::workbench::lint::formula::{Formula, Literal, Test, satisfiable};

pub(super) const RULE: Rule = Rule {
    code: Code::AsksNobody,
    find,
};

fn find(desk: &Desk<'_>, found: &mut Vec<Problem>) {
    let somebody = Formula::Test(Literal {
        subject: "context.interactive".into(),
        test: Test::Is("no".to_owned()),
        holds: false,
    });
    for subject in &desk.policies {
        if subject.policy.verdict != Verdict::Ask {
            continue;
        }
        let possible = |case: &Case| satisfiable(&[&case.holds], &desk.domain);
        let askable = |case: &Case| satisfiable(&[&case.holds, &somebody], &desk.domain);
        if subject.cases.iter().any(possible) && !subject.cases.iter().any(askable) {
            let problem = Problem::warning(
                Code::AsksNobody,
                format!(
                    "`{}` asks only where the host says that nobody can be asked, and there it denies",
                    subject.id()
                ),
            )
            .help("remove `@decision(\"ask\")`, or the test of `context.interactive`");
            found.push(subject.problem(problem, "decision"));
        }
    }
}
