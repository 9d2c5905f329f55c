//! Policies as they are put to the solver: without what only watches, and for what can be asked.

use cedar_policy::pst::{self, Clause};
use cedar_policy::{Policy as CedarPolicy, PolicySet};

use super::environment::{Environment, settled};
use crate::engine::bundle::{Bundle, Policy, Settings, Verdict};
use crate::engine::codec::Decoder;

/// Which forbids count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::workbench) enum Calls {
    /// All of them: what the permits leave is allowed.
    Allowed,
    /// Not those that ask: what the permits leave is allowed, or a person is asked.
    NotDenied,
}

/// Makes Cedar policies of a bundle's.
pub(in crate::workbench) struct Translator<'a> {
    settings: &'a Settings,
    decoder: Decoder,
}

impl<'a> Translator<'a> {
    pub(in crate::workbench) fn new(settings: &'a Settings) -> Self {
        Self {
            settings,
            decoder: Decoder::default(),
        }
    }

    /// One policy, for requests that there can be.
    pub(in crate::workbench) fn ranged(
        &mut self,
        policy: &Policy,
        environment: Environment,
    ) -> Result<CedarPolicy, String> {
        self.policy(policy, "0", None, Some(environment.ranges(self.settings)))
    }

    /// A set that allows what the policy describes, for requests that there can be.
    pub(in crate::workbench) fn described(
        &mut self,
        policy: &Policy,
        environment: Environment,
    ) -> Result<PolicySet, String> {
        let effect = Some(pst::Effect::Permit);
        let policy = self.policy(policy, "0", effect, Some(environment.ranges(self.settings)))?;
        PolicySet::from_policies([policy]).map_err(|error| error.to_string())
    }

    /// A policy that forbids what the given one describes.
    pub(in crate::workbench) fn forbidden(
        &mut self,
        policy: &Policy,
        id: &str,
    ) -> Result<CedarPolicy, String> {
        self.policy(policy, id, Some(pst::Effect::Forbid), None)
    }

    /// The policies of a bundle that bind such a request. With `ranged`, they allow only requests
    /// that there can be.
    pub(in crate::workbench) fn set(
        &mut self,
        bundle: &Bundle,
        environment: Environment,
        calls: Calls,
        ranged: bool,
    ) -> Result<PolicySet, String> {
        let mut set = PolicySet::new();
        for (index, policy) in bundle.policies.iter().enumerate() {
            if !binds(policy, environment, calls) {
                continue;
            }
            let range = (ranged && policy.verdict == Verdict::Permit)
                .then(|| environment.ranges(self.settings));
            let policy = self.policy(policy, &index.to_string(), None, range)?;
            set.add(policy).map_err(|error| error.to_string())?;
        }
        Ok(set)
    }

    fn policy(
        &mut self,
        policy: &Policy,
        id: &str,
        effect: Option<pst::Effect>,
        first: Option<Clause>,
    ) -> Result<CedarPolicy, String> {
        let decoded = self
            .decoder
            .policy(&policy.body, id)
            .map_err(|error| error.0)?;
        let tree = decoded.to_pst().map_err(|error| error.to_string())?;
        let body = tree.body();
        let clauses = body.clauses().iter().map(|clause| match clause {
            Clause::When(expr) => Clause::When(settled(expr, self.settings)),
            Clause::Unless(expr) => Clause::Unless(settled(expr, self.settings)),
        });
        let template = pst::Template::new(
            id,
            effect.unwrap_or(body.effect),
            body.principal.clone(),
            body.action.clone(),
            body.resource.clone(),
        )
        .try_with_clauses(first.into_iter().chain(clauses))
        .map_err(|error| error.to_string())?;
        let policy = pst::StaticPolicy::try_from(template).map_err(|error| error.to_string())?;
        CedarPolicy::from_pst(pst::Policy::Static(policy)).map_err(|error| error.to_string())
    }
}

/// Whether a policy has a say in what becomes of such a request.
fn binds(policy: &Policy, environment: Environment, calls: Calls) -> bool {
    let counts = calls == Calls::Allowed || policy.verdict != Verdict::Ask;
    !policy.monitor && counts && environment.admits(policy)
}
