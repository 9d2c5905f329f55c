//! Whose data an agent works with.

use serde::{Deserialize, Serialize};

use super::containment::{PathPattern, Places};
use super::pattern::Haystack;

/// The entities of `entities.toml`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entities {
    /// Each of them.
    pub all: Vec<Entity>,
}

/// Somebody whose data is kept apart from others': a customer, a house, a department.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entity {
    /// The name, as policies and the record have it.
    pub name: String,
    /// Other names of it.
    pub aliases: Vec<String>,
    /// Where its agents work.
    pub workspaces: Vec<PathPattern>,
    /// Whether its texts hold health information.
    pub phi: bool,
    /// The providers of models that may see its texts.
    pub clearances: Vec<String>,
}

impl Entities {
    /// The entity of that name, whatever the case of its letters (C-08).
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Entity> {
        let name = name.trim().to_lowercase();
        let is = |known: &String| known.to_lowercase() == name;
        self.all
            .iter()
            .find(|entity| is(&entity.name) || entity.aliases.iter().any(is))
    }

    /// The entity that works in this folder: resolved, absolute. The most specific one counts.
    #[must_use]
    pub fn at(&self, workspace: &str, places: &Places) -> Option<&Entity> {
        let workspace = Haystack::new(workspace);
        self.all
            .iter()
            .filter_map(|entity| {
                let covering = entity
                    .workspaces
                    .iter()
                    .filter(|pattern| pattern.covers(&workspace, places));
                let longest = covering.map(|pattern| pattern.source.len()).max()?;
                Some((longest, entity))
            })
            .max_by_key(|(length, _)| *length)
            .map(|(_, entity)| entity)
    }

    /// Whether the texts of that entity, or of nobody known, may hold health information. Where no
    /// entity was ever named, nobody's do.
    #[must_use]
    pub fn phi(&self, entity: Option<&Entity>) -> bool {
        !self.all.is_empty() && entity.is_none_or(|entity| entity.phi)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entities() -> Entities {
        let entity = |name: &str, workspace: &str, phi| Entity {
            name: name.to_owned(),
            aliases: vec![format!("{name}-care")],
            workspaces: vec![PathPattern::new(workspace).unwrap()],
            phi,
            ..Entity::default()
        };
        Entities {
            all: vec![
                entity("Everest", "~/work", true),
                entity("Maple", "~/work/maple", false),
            ],
        }
    }

    #[test]
    fn a_name_is_known_in_any_case() {
        let entities = entities();
        for name in ["Everest", "everest", " EVEREST ", "everest-CARE"] {
            assert_eq!(entities.named(name).unwrap().name, "Everest", "{name}");
        }
        assert_eq!(entities.named("Ever"), None);
    }

    #[test]
    fn the_nearest_workspace_tells() {
        let entities = entities();
        let places = Places {
            home: Some("/home/dev".to_owned()),
            ..Places::default()
        };
        let name = |path| {
            entities
                .at(path, &places)
                .map(|entity| entity.name.as_str())
        };
        assert_eq!(name("/home/dev/work/x"), Some("Everest"));
        assert_eq!(name("/home/dev/work/maple/x"), Some("Maple"));
        assert_eq!(name("/home/dev/other"), None);
    }

    #[test]
    fn who_is_not_known_has_health_information() {
        let entities = entities();
        assert!(entities.phi(None));
        assert!(entities.phi(entities.named("everest")));
        assert!(!entities.phi(entities.named("maple")));
        assert!(!Entities::default().phi(None));
    }
}
