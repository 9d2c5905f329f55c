//! Policies to begin with: the default ones, with what a kind of work adds to them and takes away.

mod catalog;

use super::format;
use super::schema;
use crate::policy::edit::Files;
use crate::policy::source::EMBEDDED;

pub use catalog::TEMPLATES;

/// A base layer for a kind of work.
#[derive(Debug)]
pub struct Template {
    /// What it is called.
    pub name: &'static str,
    /// For whom it is, in one line.
    pub about: &'static str,
    /// What becomes of the default policies.
    changes: &'static [Change],
    /// Its own policies.
    cedar: &'static str,
    /// Its decision tests.
    tests: &'static str,
}

/// What becomes of the default policies.
#[derive(Debug)]
enum Change {
    /// The policy of that id is left out, because of this.
    Without(&'static str, &'static str),
    /// In that file, the one text becomes the other.
    Set(&'static str, &'static str, &'static str),
    /// That file ends with this.
    Append(&'static str, &'static str),
    /// Whatever asks denies.
    NobodyToAsk,
}

/// Why a template does not fit the default policies of this version.
#[derive(Debug)]
pub struct Misfit(String);

impl std::fmt::Display for Misfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misfit {}

impl Template {
    /// The template of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        TEMPLATES.iter().find(|template| template.name == name)
    }

    /// The files of the layer, with its tests and the schemas for editors.
    ///
    /// # Errors
    /// If the template speaks of a default policy that there is none.
    pub fn files(&self) -> Result<Files, Misfit> {
        let mut files: Files = EMBEDDED
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect();
        for change in self.changes {
            change.apply(&mut files)?;
        }
        files.insert(format!("{}.cedar", self.name), self.cedar.to_owned());
        for (name, text) in &mut files {
            if name.ends_with(".cedar") {
                *text = format::format(name, text).map_err(|_| misfit(name))?;
            }
        }
        files.insert(format!("tests/{}.toml", self.name), self.tests.to_owned());
        let schemas = schema::FILES.iter();
        files.extend(schemas.map(|(name, text)| ((*name).to_owned(), (*text).to_owned())));
        Ok(files)
    }
}

impl Change {
    fn apply(&self, files: &mut Files) -> Result<(), Misfit> {
        match *self {
            Self::Without(id, why) => {
                let wanted = format!("@id(\"{id}\")");
                let cedar = files.values_mut().filter(|text| text.contains(&wanted));
                for text in cedar {
                    let policy = format::policies(text).find(|one| one.contains(&wanted));
                    let comment = format!("// `{id}` is not here: {why}");
                    let changed = policy.map(|policy| text.replacen(policy, &comment, 1));
                    if let Some(changed) = changed {
                        *text = changed;
                        return Ok(());
                    }
                }
                Err(misfit(id))
            }
            Self::Set(file, from, to) => {
                let text = files.get_mut(file).ok_or_else(|| misfit(file))?;
                if text.matches(from).count() != 1 {
                    return Err(misfit(from));
                }
                *text = text.replacen(from, to, 1);
                Ok(())
            }
            Self::Append(file, more) => {
                let text = files.get_mut(file).ok_or_else(|| misfit(file))?;
                text.push('\n');
                text.push_str(more);
                Ok(())
            }
            Self::NobodyToAsk => {
                for (_, text) in files
                    .iter_mut()
                    .filter(|(name, _)| name.ends_with(".cedar"))
                {
                    *text = nobody_to_ask(text);
                }
                Ok(())
            }
        }
    }
}

/// The text with policies that deny in the place of those that ask.
fn nobody_to_ask(text: &str) -> String {
    let mut out = text.to_owned();
    for policy in format::policies(text).filter(|policy| policy.contains("@decision(\"ask\")\n")) {
        let denies = policy
            .lines()
            .filter(|line| *line != "@decision(\"ask\")")
            .map(|line| match line.strip_prefix("@help(") {
                Some(_) => "@help(\"a person does it, outside of the pipeline\")".to_owned(),
                None => line.replacen("@id(\"ask-", "@id(\"no-", 1),
            })
            .collect::<Vec<_>>()
            .join("\n");
        out = out.replacen(policy, &denies, 1);
    }
    out
}

fn misfit(what: &str) -> Misfit {
    Misfit(format!(
        "the template does not fit the default policies: `{what}`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::layer::Layer;
    use crate::policy::source::Source;

    #[test]
    fn every_template_is_in_order_and_in_form() {
        for template in TEMPLATES {
            let files = template.files().unwrap();
            let read = |(name, _): &(&String, &String)| {
                !name.starts_with('.') && !name.starts_with("tests/")
            };
            let read = files
                .iter()
                .filter(read)
                .map(|(name, text)| (name.clone(), text.clone()));
            let source = Source::new(Layer::User, template.name, read);
            let checked = crate::policy::check_sources(&[source]);
            let problems: Vec<String> = checked
                .problems
                .iter()
                .map(crate::policy::Problem::one_line)
                .collect();
            assert_eq!(problems, [""; 0]);
            let bundle = checked.bundle.unwrap();
            // The sentences of what denies do not say that somebody may approve it.
            for policy in &bundle.policies {
                let asks = policy.verdict == crate::engine::bundle::Verdict::Ask;
                assert!(
                    asks || !policy.help.contains("approve"),
                    "{}: {}",
                    policy.id,
                    policy.help
                );
            }
            assert!(
                template.cedar.starts_with("// "),
                "{} says what it is",
                template.name
            );
            assert_eq!(
                format::format("a", template.cedar).unwrap(),
                template.cedar,
                "{}",
                template.name
            );
        }
    }

    #[test]
    fn nobody_is_asked_in_a_pipeline() {
        let files = Template::named("ci-runner").unwrap().files().unwrap();
        for (name, text) in files.iter().filter(|(name, _)| name.ends_with(".cedar")) {
            assert!(!text.contains("@decision(\"ask\")"), "{name}");
        }
        assert!(files["autonomy.cedar"].contains("@id(\"no-publish\")"));
    }

    #[test]
    fn a_change_that_fits_nothing_is_an_error() {
        let mut files = Files::new();
        for change in [
            Change::Without("nobody", "of this"),
            Change::Set("bridge.toml", "a", "b"),
            Change::Append("bridge.toml", "a"),
        ] {
            assert!(change.apply(&mut files).is_err());
        }
    }
}
