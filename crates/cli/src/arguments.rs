//! Arguments of the program, with passwords kept out of the process list.
//!
//! Every user of a machine can read the arguments of its processes, but only the same user can read the environment. If
//! a database address contains a password, the program moves it into the environment and restarts itself with the password
//! masked.

use std::ffi::OsString;

/// Contains the process id and the real arguments. Not `BACKSTITCH_…`, because it is no setting.
const VARIABLE: &str = "_BACKSTITCH_ARGUMENTS";
/// Replaces a password in the process list.
const MASK: &str = "***";

/// The user's arguments. Does not return if the process restarts itself.
pub(crate) fn arguments() -> Vec<OsString> {
    let given: Vec<OsString> = std::env::args_os().collect();
    if let Some(hidden) = std::env::var(VARIABLE).ok().and_then(|text| hidden(&text, std::process::id())) {
        return hidden;
    }
    let texts: Option<Vec<&str>> = given.iter().map(|argument| argument.to_str()).collect();
    if let Some(texts) = texts
        && texts.iter().any(|argument| masked(argument).is_some())
    {
        start_anew(&texts);
    }
    given
}

/// The arguments in the variable, if they belong to this process: children inherit the variable.
fn hidden(text: &str, process: u32) -> Option<Vec<OsString>> {
    let (owner, arguments) = text.split_once(' ')?;
    if owner.parse() != Ok(process) {
        return None;
    }
    let arguments: Vec<String> = serde_json::from_str(arguments).ok()?;
    Some(arguments.into_iter().map(OsString::from).collect())
}

/// The argument with the password of its address masked, if it has one: `postgres://user:password@host/…` or
/// `postgres://host/db?password=…`, also behind a flag.
fn masked(argument: &str) -> Option<String> {
    let (scheme, rest) = argument.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let authority =
        match authority.rsplit_once('@').and_then(|(user, host)| Some((user.split_once(':')?.0, host))) {
            Some((user, host)) => format!("{user}:{MASK}@{host}"),
            None => authority.to_owned(),
        };
    let path = match path.split_once('?') {
        Some((path, query)) => {
            format!("{path}?{}", query.split('&').map(masked_parameter).collect::<Vec<_>>().join("&"))
        }
        None => path.to_owned(),
    };
    Some(format!("{scheme}://{authority}{path}")).filter(|masked| masked != argument)
}

fn masked_parameter(parameter: &str) -> String {
    match parameter.split_once('=') {
        Some(("password", _)) => format!("password={MASK}"),
        _ => parameter.to_owned(),
    }
}

/// Replaces the process by one without passwords in its arguments. The process id stays.
#[cfg(unix)]
fn start_anew(given: &[&str]) {
    use std::os::unix::process::CommandExt as _;

    let (Ok(program), Ok(arguments)) = (std::env::current_exe(), serde_json::to_string(given)) else {
        return;
    };
    let mut shown = given.iter().map(|argument| masked(argument).unwrap_or_else(|| (*argument).to_owned()));
    let mut command = std::process::Command::new(program);
    if let Some(name) = shown.next() {
        command.arg0(name);
    }
    command.env(VARIABLE, format!("{} {arguments}", std::process::id()));
    // Returns only on failure; then the program continues as it was started.
    let why = command.args(shown).exec();
    crate::bench::print::note(format_args!(
        "backstitch: the password stays in the process list: {why}; set BACKSTITCH_DB instead"
    ));
}

#[cfg(not(unix))]
fn start_anew(_given: &[&str]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_addresses_are_masked() {
        for (given, shown) in [
            ("postgres://me:geheim@host/db", "postgres://me:***@host/db"),
            (
                "--db=postgres://me:ge:he@im@host:5432/db?sslmode=require",
                "--db=postgres://me:***@host:5432/db?sslmode=require",
            ),
            ("postgres://host/db?user=me&password=geheim", "postgres://host/db?user=me&password=***"),
        ] {
            assert_eq!(masked(given).as_deref(), Some(shown));
        }
        for plain in [
            "serve",
            "sqlite:/var/lib/a:b@c.db",
            "postgres://host/db",
            "postgres://me@host/db",
            "http://host/path?mail=a:b@c",
            "postgres://me:***@host/db",
        ] {
            assert_eq!(masked(plain), None, "{plain}");
        }
    }

    #[test]
    fn hidden_arguments_are_for_their_own_process() {
        let text = r#"17 ["backstitch","serve"]"#;
        assert_eq!(hidden(text, 17), Some(vec!["backstitch".into(), "serve".into()]));
        assert_eq!(hidden(text, 18), None);
    }
}
