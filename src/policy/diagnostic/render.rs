//! Text, JSON and SARIF.
