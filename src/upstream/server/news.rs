//! What a server says without being asked: progress, and that its tools have changed. All else it may
//! ask of a client is refused by rmcp's own defaults.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, ProgressNotificationParam, ProgressToken,
};
use rmcp::service::NotificationContext;
use rmcp::{ClientHandler, RoleClient};
use tokio::sync::mpsc;

/// How far a call has come. What the server says beside the numbers is no text that anybody judged,
/// and goes no further.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// So far.
    pub done: f64,
    /// Of so much, if that is known.
    pub total: Option<f64>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct News {
    watched: Watched,
    changes: Arc<AtomicU64>,
}

type Watched = Arc<Mutex<HashMap<ProgressToken, mpsc::Sender<Progress>>>>;

/// As long as it is there, progress is passed on.
#[derive(Debug)]
pub(super) struct Watch(Watched, ProgressToken);

impl News {
    pub(super) fn watch(&self, token: ProgressToken, to: mpsc::Sender<Progress>) -> Watch {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.insert(token.clone(), to);
        drop(watched);
        Watch(Arc::clone(&self.watched), token)
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    pub(super) fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        watched.remove(&self.1);
    }
}

impl ClientHandler for News {
    fn get_info(&self) -> ClientConfig {
        let name = Implementation::new(
            "copilot-bridge".to_owned(),
            env!("CARGO_PKG_VERSION").to_owned(),
        );
        ClientConfig::new(ClientCapabilities::default(), name)
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let progress = Progress {
            done: params.progress,
            total: params.total,
        };
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(to) = watched.get(&params.progress_token) {
            // Who sends more than is read loses some of it.
            let _ = to.try_send(progress);
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.note_change();
    }
}
