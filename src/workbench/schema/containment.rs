//! `containment.toml`

use super::Document;
use super::shape::{Field, Shape, Table, field, flag, format, texts, words};
use crate::engine::program::{CodeOperand, Operands, Output};
use crate::policy::settings::containment::{KEYS, LABEL};
use crate::policy::settings::programs::{INTERPRETER, LEADING, PROGRAM, VARIABLE, WRAPPER};

pub(super) fn document() -> Document {
    Document {
        name: "containment",
        files: "containment.toml",
        about: "Facts about paths and programs, as labels. What a label means is for the Cedar files to say.",
        root: Table::new(KEYS, keys()),
    }
}

fn keys() -> [Field; 15] {
    let inside = || Shape::Choice(vec!["inside", "outside"]);
    let tables = |name, table, about| field(name, Shape::Tables(table), about);
    [
        format(),
        field(
            "workspace_root",
            Shape::Form("^/"),
            "The workspace, wherever agents work. Without it, the git root of the folder at hand.",
        ),
        texts("data_keys", "Keys of arguments whose values are data: never taken for paths."),
        texts(
            "any_shell",
            "Programs that do the same in PowerShell and in cmd as in bash.",
        ),
        field(
            "mounts",
            inside(),
            "Where something counts that is inside the workspace by its name, but lies on another mount.",
        )
        .default("inside"),
        field(
            "hard_links",
            inside(),
            "Where a file counts that is inside the workspace by its name, but has another name besides.",
        )
        .default("inside"),
        texts(
            "guard",
            "What protects the bridge itself: no tool may change it, not even where it does not exist yet.",
        ),
        texts("starts_code", "What makes other programs run code."),
        texts("credentials", "What opens other doors."),
        tables("label", label(), "A label for paths."),
        tables(
            "program",
            program(),
            "What holds for a command if its program and its words are these. All entries that hold add their labels.",
        ),
        tables("wrapper", wrapper(), "A program that runs the command among its words."),
        tables("interpreter", interpreter(), "A program that runs code."),
        tables(
            "variable",
            variable(),
            "A variable that changes what programs do, or that is secret by its name.",
        ),
        tables("leading", leading(), "Options that stand before a subcommand."),
    ]
}

fn label() -> Table {
    let paths = "Paths and globs: each covers itself and everything below it. `~` is the home, `${workspace}`, `${policies}`, `${state}`, `${binary}` and `${temp}` are places.";
    Table::new(
        LABEL,
        [
            field("name", Shape::Filled, "The label, as policies ask for it.").required(),
            texts("paths", paths).required(),
        ],
    )
}

fn program() -> Table {
    Table::new(
        PROGRAM,
        [
            names("Programs, by the last part of their names."),
            texts(
                "subcommands",
                "The first word that is no option is one of these; an empty text is none.",
            ),
            texts("with", "One of these is among the words."),
            texts("besides", "One of these is among the words as well."),
            texts("without", "None of these is among the words."),
            texts("labels", "The labels of the command."),
            words(
                "operands",
                &Operands::NAMED,
                "What the program does to the words that it is given. Without it, what looks like a path is read.",
            ),
            words(
                "output",
                &Output::NAMED,
                "What it prints, for whatever runs that or takes it as names.",
            ),
            texts("data_options", "Options whose values are data."),
            texts(
                "input_options",
                "Options whose values are files that it reads.",
            ),
            texts(
                "output_options",
                "Options whose values are files that it writes.",
            ),
            texts(
                "saving_options",
                "Options with which it saves what it fetches under a name of its own; an empty text is none at all.",
            ),
            operands("data_operands", "How many operands in front are data."),
            texts("examples", "Command lines for which the entry holds."),
            texts("counterexamples", "Command lines for which it does not."),
        ],
    )
}

fn wrapper() -> Table {
    Table::new(
        WRAPPER,
        [
            names("Programs that run another command."),
            texts("valued", "Options that take the next word."),
            operands("operands", "How many operands stand before the command."),
            flag(
                "assignments",
                "Whether `NAME=value` may stand before the command.",
            ),
            flag(
                "appends",
                "Whether words that nobody sees here are added to the command.",
            ),
            texts("except", "Options with which it runs nothing."),
            texts("folders", "Options whose value is where the command runs."),
            texts(
                "after",
                "Words behind which a command stands, up to `;` or `+`. Without them it stands behind the options.",
            ),
            flag("joins", "Whether the words together are shell code."),
        ],
    )
}

fn interpreter() -> Table {
    Table::new(
        INTERPRETER,
        [
            names("Programs that run code."),
            texts("options", "Options whose value is code."),
            texts(
                "valued",
                "Options that take the next word, and it is no code.",
            ),
            texts(
                "stdin",
                "Options behind which the code comes from the standard input.",
            ),
            texts("modules", "Options behind which a module stands."),
            flag(
                "shell",
                "Whether the code is shell, and read like the line itself.",
            ),
            words(
                "operand",
                &CodeOperand::NAMED,
                "What the first operand is where no option brings code.",
            )
            .default("file"),
            texts("quiet", "Expressions that match code which does no harm."),
            texts(
                "loud",
                "Expressions that match code which may do harm. Without `quiet`, all other code is harmless.",
            ),
            texts("examples", "Code that is harmless to the entry."),
            texts("counterexamples", "Code that is not."),
        ],
    )
}

fn variable() -> Table {
    Table::new(
        VARIABLE,
        [
            names("Names of variables; `*` stands for anything at either end."),
            texts("labels", "The labels of a command that sets one."),
            texts(
                "used",
                "The labels of a command that is given the value of one that the line does not set.",
            ),
            harmless("Expressions that match `NAME=value` where that does no harm."),
            texts("examples", "Assignments that do no harm."),
            texts("counterexamples", "Assignments that may."),
        ],
    )
}

fn leading() -> Table {
    Table::new(
        LEADING,
        [
            names("Programs with subcommands."),
            texts("valued", "Options that take the next word."),
            texts("folders", "Options whose value is where the program works."),
            texts("options", "Options that give the command the labels."),
            texts("labels", "These labels."),
            harmless("Expressions that match values with which they do not."),
            texts("examples", "Values that do no harm."),
            texts("counterexamples", "Values that may."),
        ],
    )
}

fn names(about: &'static str) -> Field {
    field("names", Shape::Several(Box::new(Shape::Text)), about).required()
}

fn harmless(about: &'static str) -> Field {
    texts("harmless", about)
}

fn operands(name: &'static str, about: &'static str) -> Field {
    field(name, Shape::Number(0..=8), about).default(0)
}
