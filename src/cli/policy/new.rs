//! `policy new`: policies to begin with.

use std::io::Write;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;

use super::show_problems;
use crate::cli::Outcome;
use crate::exit::Exit;
use crate::policy::Layer;
use crate::policy::edit::{self, Files};
use crate::workbench::schema;
use crate::workbench::templates::{TEMPLATES, Template};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The directory to write; it must not hold policies yet
    #[arg(required_unless_present = "list")]
    dir: Option<PathBuf>,
    /// For which kind of work
    #[arg(long, value_name = "NAME", value_parser = names(), required_unless_present = "list")]
    template: Option<String>,
    /// Say which templates there are
    #[arg(long, conflicts_with_all = ["dir", "template"])]
    list: bool,
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(TEMPLATES.iter().map(|template| template.name))
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let (Some(dir), Some(name)) = (&args.dir, &args.template) else {
        for template in TEMPLATES {
            writeln!(out, "{:<19} {}", template.name, template.about)?;
        }
        return Ok(Exit::Ok);
    };
    let template = Template::named(name).ok_or("there is no such template")?;
    let files = template.files()?;
    let shown = dir.display();
    // `publish` looks at policies only; tests of others are to stay as well.
    let taken = files
        .keys()
        .filter(|name| !name.starts_with(schema::DIR))
        .find(|name| dir.join(name).symlink_metadata().is_ok());
    if let Some(taken) = taken {
        return Err(format!("`{shown}` holds policies already: `{taken}`").into());
    }
    match edit::publish(Layer::User, dir, &Files::new(), &files) {
        Ok(written) => {
            writeln!(
                out,
                "wrote {} files into `{shown}`: the defaults, and {name}.cedar",
                written.len()
            )?;
            writeln!(
                out,
                "next: read {name}.cedar, then `copilot-bridge policy check {shown}` and `copilot-bridge policy test {shown}`"
            )?;
            Ok(Exit::Ok)
        }
        Err(problem) => {
            show_problems(&[problem], out)?;
            Ok(Exit::Failed)
        }
    }
}
