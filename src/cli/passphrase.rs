//! A passphrase, typed at the terminal itself: neither the environment nor a pipe can give one.

use crate::keys::{KeyError, Passphrase};

/// The passphrase of that key.
pub(crate) fn ask(what: &str) -> Result<Passphrase, KeyError> {
    rpassword::prompt_password(format!("passphrase of {what}: "))
        .map(Passphrase::from)
        .map_err(|_| KeyError("there is no terminal to ask for the passphrase at".to_owned()))
}

/// A new passphrase, typed twice.
pub(crate) fn choose(what: &str) -> Result<Passphrase, KeyError> {
    let first = ask(what)?;
    if first.is_empty() {
        return Err(KeyError("an empty passphrase protects nothing".to_owned()));
    }
    if *ask("the same, again")? != *first {
        return Err(KeyError("these were two different passphrases".to_owned()));
    }
    Ok(first)
}
