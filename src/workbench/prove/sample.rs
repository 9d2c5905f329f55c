//! Requests made of what a policy names: where one of them shows that it can hold, nobody has to be asked.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::counterexample::settle;
use super::environment::Environment;
use super::witness::words;
use crate::engine::attribute::{AGENT, Attribute, CONTEXT};
use crate::engine::bundle::{Bundle, Policy};
use crate::engine::explain::{Why, why};
use crate::engine::request::Request;
use crate::engine::schema::attributes;

/// The most texts of a policy that are tried as the value of every text.
const TEXTS: usize = 8;

/// Whether some made-up request shows that the policy can hold. `false` says nothing.
pub(super) fn holds(bundle: &Bundle, index: usize, environment: Environment) -> bool {
    let Some(policy) = bundle.policies.get(index) else {
        return false;
    };
    made_up(bundle, policy, environment)
        .any(|request| matches!(why(bundle, &request, &[index]).as_slice(), [(_, Why::Held)]))
}

fn made_up<'a>(
    bundle: &'a Bundle,
    policy: &Policy,
    environment: Environment,
) -> impl Iterator<Item = Request> + 'a {
    let words = words(policy);
    let mut texts = vec![String::new(), "x".to_owned()];
    texts.extend(words.iter().take(TEXTS).cloned());
    let mut fillings = Vec::new();
    for text in texts {
        for truth in [true, false] {
            for members in [words.clone(), BTreeSet::new()] {
                for depth in [0, bundle.settings.limits.depth] {
                    fillings.push(Filling {
                        text: text.clone(),
                        truth,
                        members: members.clone(),
                        depth,
                    });
                }
            }
        }
    }
    fillings
        .into_iter()
        .filter_map(move |filling| filling.request(bundle, environment))
}

/// What every fact of a type is.
struct Filling {
    text: String,
    truth: bool,
    members: BTreeSet<String>,
    depth: u32,
}

impl Filling {
    fn request(&self, bundle: &Bundle, environment: Environment) -> Option<Request> {
        let mut resource = self.record(attributes(environment.resource));
        let kind = environment.resource.name().to_lowercase();
        resource.insert("type".to_owned(), kind.into());
        let mut context = self.record(CONTEXT);
        context.insert("depth".to_owned(), self.depth.into());
        let request = json!({
            "principal": self.record(AGENT),
            "action": environment.action.name(),
            "resource": resource,
            "context": context,
        });
        let mut request: Request = serde_json::from_value(request).ok()?;
        settle(&mut request, &bundle.settings);
        Some(request)
    }

    fn record(&self, table: &[Attribute]) -> Map<String, Value> {
        let value = |attribute: &Attribute| match attribute.cedar {
            "Bool" => self.truth.into(),
            "Long" => 1.into(),
            "Set<String>" => json!(self.members),
            "Input" => json!({}),
            _ => self.text.as_str().into(),
        };
        table
            .iter()
            .map(|attribute| (attribute.name.to_owned(), value(attribute)))
            .collect()
    }
}
