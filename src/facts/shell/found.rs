//! Which files a search finds: what `find` runs a command on, or takes away itself.

use super::state::{Arg, Below};

/// The folders that a search starts from, each with the names that it finds there, as words.
pub(super) fn found(args: &[Arg]) -> Vec<Arg> {
    let is_root = |arg: &&Arg| !arg.text.starts_with(['-', '(', '!']);
    let start = args
        .iter()
        .take_while(|arg| matches!(arg.text.as_str(), "-L" | "-H" | "-P"))
        .count();
    let args = args.get(start..).unwrap_or_default();
    let mut roots: Vec<Arg> = args.iter().take_while(is_root).cloned().collect();
    let names = Terms(args.get(roots.len()..).unwrap_or_default()).any();
    if roots.is_empty() {
        roots.push(Arg::known("."));
    }
    let Some(names) = names else { return roots };
    roots
        .iter()
        .flat_map(|root| {
            names.iter().map(|name| Arg {
                below: Some(Below {
                    named: name.clone(),
                    hidden: true,
                }),
                ..root.clone()
            })
        })
        .collect()
}

/// Whether a pattern matches whatever it is compared with.
pub(super) fn is_catch_all(pattern: &str) -> bool {
    let mut class = false;
    pattern.chars().all(|c| {
        match c {
            '[' => class = true,
            ']' => class = false,
            _ => return class || matches!(c, '*' | '?' | '.'),
        }
        true
    })
}

/// What is left to read of an expression.
struct Terms<'a>(&'a [Arg]);

impl Terms<'_> {
    /// The names that bound what an expression holds for; `None` where nothing bounds it.
    fn any(&mut self) -> Option<Vec<String>> {
        let mut names = Some(Vec::new());
        loop {
            let (found, goes_on) = self.all();
            names = names.zip(found).map(|(mut names, found)| {
                names.extend(found);
                names
            });
            if !goes_on {
                return names.filter(|names| !names.is_empty());
            }
        }
    }

    /// Terms that hold together, up to `-o` or a bracket; whether another alternative follows.
    fn all(&mut self) -> (Option<Vec<String>>, bool) {
        let mut names = None;
        let mut skip = false;
        while let Some((arg, rest)) = self.0.split_first() {
            self.0 = rest;
            match arg.text.as_str() {
                "-o" | "-or" => return (names, true),
                ")" => return (names, false),
                // Both sides are looked at, whatever the first one says.
                "," => return (None, false),
                "!" | "-not" => skip = true,
                "(" => {
                    let inner = self.any();
                    if !std::mem::take(&mut skip) {
                        names = names.or(inner);
                    }
                }
                "-name" | "-iname" | "-path" | "-ipath" | "-wholename" => {
                    let value = rest.first();
                    self.0 = rest.get(1..).unwrap_or_default();
                    let bounds = |value: &&Arg| value.known && !is_catch_all(&value.text);
                    let name = value.filter(bounds).map(|value| vec![value.text.clone()]);
                    if !std::mem::take(&mut skip) {
                        names = names.or(name);
                    }
                }
                // What it runs are words of another command.
                "-exec" | "-execdir" | "-ok" | "-okdir" => {
                    let len = rest
                        .iter()
                        .take_while(|arg| !matches!(arg.text.as_str(), ";" | "+"))
                        .count();
                    self.0 = rest.get(len + 1..).unwrap_or_default();
                }
                _ if arg.is_option() => skip = false,
                _ => {}
            }
        }
        (names, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(line: &str) -> Vec<String> {
        let args: Vec<Arg> = line.split(' ').map(Arg::known).collect();
        found(&args)
            .into_iter()
            .map(|arg| match arg.below {
                Some(below) => format!("{}/{}", arg.text, below.named),
                None => arg.text,
            })
            .collect()
    }

    #[test]
    fn names_bound_what_is_found() {
        assert_eq!(names("src -name *.rs -delete"), ["src/*.rs"]);
        assert_eq!(names("-L a b -name x -type f"), ["a/x", "b/x"]);
        assert_eq!(
            names(". ( -name a -o -name b ) -exec rm {} +"),
            ["./a", "./b"]
        );
        assert_eq!(names("-type f -iname x"), ["./x"]);
    }

    #[test]
    fn what_bounds_nothing_is_no_name() {
        for line in [
            ". -delete",
            ". -name * -delete",
            ". -name ?* -delete",
            ". ! -name a -delete",
            ". -name a -o -delete",
            ". ( -name a -o -type f ) -delete",
            ". -not ( -name a ) -delete",
            ". -exec rm -name ; -delete",
            ". -name a , -delete",
        ] {
            assert_eq!(names(line), ["."], "{line}");
        }
    }
}
