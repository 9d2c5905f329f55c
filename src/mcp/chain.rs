//! The chain of calls that a call is part of: how deep it is, and its trace (C-12, W3C Trace Context).
//!
//! The depth comes from `_meta`, from the environment that the program was started in, and from how
//! many calls of the same chain this program is serving at the moment. The largest counts: what a
//! caller says may raise it, and never lower it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::HeaderMap;
use data_encoding::HEXLOWER;
use rmcp::model::{JsonObject, MetaObject, RequestMetaObject};
use serde_json::Value;

use crate::audit::record::v1::Trace;

/// The key in `_meta` under which the depth is passed on.
pub const DEPTH_KEY: &str = "dev.copilot-bridge/depth";

/// The key in `_meta` under which the id of the chain is passed on.
pub const CHAIN_KEY: &str = "dev.copilot-bridge/chain";

/// The argument by which older programs pass the depth on (R-000-42).
pub const DEPTH_ARGUMENT: &str = "_depth";

/// The HTTP header by which the depth is passed on to a service that knows no `_meta`.
pub const DEPTH_HEADER: &str = "x-copilot-bridge-depth";

tokio::task_local! {
    /// The chain that is being served, for whoever lists tools on its behalf.
    static CURRENT: Chain;
}

/// A longer id of a chain, or state of a trace, is not taken.
const LONGEST: usize = 512;

/// A call's place in its chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The chain's id.
    pub id: String,
    /// How many agents and bridges stand above the call.
    pub depth: u32,
    /// The trace that it is part of, if its caller traces.
    pub trace: Option<Trace>,
}

/// The chains that are being served.
#[derive(Debug, Clone, Default)]
pub struct Chains {
    /// How deep the program itself stands.
    above: u32,
    serving: Arc<Mutex<HashMap<String, u32>>>,
}

/// A call of a chain, while it is being served.
#[derive(Debug)]
pub(super) struct Served {
    chains: Chains,
    pub(super) chain: Chain,
}

impl Chain {
    /// The chain on whose behalf this task runs; a new one if there is none.
    #[must_use]
    pub fn current() -> Self {
        CURRENT.try_with(Self::clone).unwrap_or_else(|_| Self {
            id: fresh(),
            depth: 0,
            trace: None,
        })
    }

    /// Does something on behalf of this chain.
    pub(super) async fn on_behalf<T>(&self, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self.clone(), work).await
    }

    /// What `_meta` of a call on behalf of this one says.
    #[must_use]
    pub fn passed_on(&self) -> JsonObject {
        let mut meta = JsonObject::new();
        meta.insert(DEPTH_KEY.to_owned(), self.depth.saturating_add(1).into());
        meta.insert(CHAIN_KEY.to_owned(), self.id.clone().into());
        if let Some(trace) = &self.trace {
            meta.insert("traceparent".to_owned(), trace.parent.clone().into());
            if let Some(state) = &trace.state {
                meta.insert("tracestate".to_owned(), state.clone().into());
            }
        }
        meta
    }
}

impl Chains {
    /// Those of a program that stands below so many agents.
    #[must_use]
    pub fn below(above: u32) -> Self {
        Self {
            above,
            ..Self::default()
        }
    }

    /// Counts a call. `arguments` lose what older programs say of the depth there.
    pub(super) fn enter(
        &self,
        meta: &RequestMetaObject,
        headers: Option<&HeaderMap>,
        arguments: &mut JsonObject,
    ) -> Served {
        let header = |name: &str| headers.and_then(|headers| headers.get(name)?.to_str().ok());
        let trace = trace(
            meta.get_traceparent().or_else(|| header("traceparent")),
            meta.get_tracestate().or_else(|| header("tracestate")),
        );
        let id = said(meta, CHAIN_KEY)
            .and_then(Value::as_str)
            .filter(|id| !id.is_empty() && id.len() <= LONGEST)
            .map(str::to_owned)
            // Whoever knows nothing of chains may still trace them.
            .or_else(|| Some(trace.as_ref()?.parent.split('-').nth(1)?.to_owned()))
            .unwrap_or_else(fresh);
        let said = said(meta, DEPTH_KEY).map_or(0, depth);
        let header = header(DEPTH_HEADER).map_or(0, |text| text.parse().unwrap_or(u32::MAX));
        let argument = arguments
            .shift_remove(DEPTH_ARGUMENT)
            .as_ref()
            .map_or(0, legacy);
        let mut serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = serving.entry(id.clone()).or_default();
        let above = *calls;
        *calls += 1;
        drop(serving);
        Served {
            chains: self.clone(),
            chain: Chain {
                id,
                depth: [self.above, said, header, argument, above]
                    .into_iter()
                    .max()
                    .unwrap_or(u32::MAX),
                trace,
            },
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let mut serving = self
            .chains
            .serving
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(calls) = serving.get_mut(&self.chain.id) {
            *calls -= 1;
            if *calls == 0 {
                serving.remove(&self.chain.id);
            }
        }
    }
}

fn said<'a>(meta: &'a RequestMetaObject, key: &str) -> Option<&'a Value> {
    let meta: &MetaObject = meta;
    meta.get(key)
}

/// What is no number of agents is taken to be deeper than any.
fn depth(said: &Value) -> u32 {
    said.as_u64()
        .and_then(|depth| u32::try_from(depth).ok())
        .unwrap_or(u32::MAX)
}

/// A model fills this one in: nonsense counts for nothing, as it always did.
fn legacy(said: &Value) -> u32 {
    match said.as_f64() {
        Some(depth) if depth >= f64::from(u32::MAX) => u32::MAX,
        Some(depth) if depth > 0.0 => {
            u32::try_from(said.as_u64().unwrap_or(u64::MAX)).unwrap_or(u32::MAX)
        }
        _ => 0,
    }
}

/// A trace, if it is one: version, trace, parent and flags in hexadecimal.
fn trace(parent: Option<&str>, state: Option<&str>) -> Option<Trace> {
    let parent = parent?;
    let sizes: Vec<usize> = parent.split('-').map(str::len).collect();
    let plain = parent
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'));
    (plain && sizes == [2, 32, 16, 2]).then(|| Trace {
        parent: parent.to_owned(),
        state: state
            .filter(|state| !state.is_empty() && state.len() <= LONGEST)
            .map(str::to_owned),
    })
}

/// The id of a chain that begins here.
pub(super) fn fresh() -> String {
    let mut bytes = [0; 16];
    // Without any, all chains are one: too deep rather than too long.
    let _ = getrandom::fill(&mut bytes);
    HEXLOWER.encode(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn enter(chains: &Chains, meta: &Value, arguments: &Value) -> (Served, JsonObject) {
        let meta: RequestMetaObject = serde_json::from_value(meta.clone()).unwrap();
        let mut arguments = arguments.as_object().unwrap().clone();
        let served = chains.enter(&meta, None, &mut arguments);
        (served, arguments)
    }

    #[test]
    fn the_argument_raises_and_never_lowers() {
        for (meta, arguments, expected) in [
            (json!({}), json!({}), 0),
            (json!({}), json!({"_depth": 2}), 2),
            (json!({DEPTH_KEY: 2}), json!({"_depth": 1}), 2),
            (json!({DEPTH_KEY: 1}), json!({"_depth": -5}), 1),
            (json!({}), json!({"_depth": "many"}), 0),
            (json!({}), json!({"_depth": 1.5}), u32::MAX),
            (json!({DEPTH_KEY: "many"}), json!({}), u32::MAX),
            (json!({DEPTH_KEY: -1}), json!({}), u32::MAX),
        ] {
            let (served, left) = enter(&Chains::default(), &meta, &arguments);
            assert_eq!(served.chain.depth, expected, "{meta} {arguments}");
            assert!(left.is_empty(), "{left:?}");
        }
    }

    #[test]
    fn a_chain_that_comes_back_is_deeper() {
        let chains = Chains::default();
        let meta = json!({CHAIN_KEY: "c"});
        let (first, _) = enter(&chains, &meta, &json!({}));
        let (second, _) = enter(&chains, &meta, &json!({}));
        assert_eq!((first.chain.depth, second.chain.depth), (0, 1));
        drop((first, second));
        assert_eq!(enter(&chains, &meta, &json!({})).0.chain.depth, 0);
        assert!(chains.serving.lock().unwrap().is_empty());
    }

    #[test]
    fn a_trace_is_a_trace_or_nothing() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let meta = json!({"traceparent": parent, "tracestate": "a=1"});
        let chain = enter(&Chains::default(), &meta, &json!({})).0.chain.clone();
        assert_eq!(chain.id, "0af7651916cd43dd8448eb211c80319c");
        let passed = chain.passed_on();
        assert_eq!(passed.get("traceparent"), Some(&json!(parent)));
        assert_eq!(passed.get("tracestate"), Some(&json!("a=1")));
        assert_eq!(passed.get(DEPTH_KEY), Some(&json!(1)));
        for odd in [
            "",
            "00-x-y-z",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            let meta = json!({"traceparent": odd});
            let (served, _) = enter(&Chains::default(), &meta, &json!({}));
            assert_eq!(served.chain.trace, None, "{odd}");
        }
    }
}
