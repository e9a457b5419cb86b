//! The `name=value` pairs of a database URL, from both forms that coderd's driver reads.
//! It takes text apart; what a parameter means, and which are refused, is decided in `url`.

use zeroize::Zeroizing;

/// A value, of which one is the password.
type Text = Zeroizing<String>;
/// The pairs, or which part cannot be read.
pub(super) type Pairs = Result<Vec<(String, Text)>, &'static str>;

/// Takes either form apart.
pub(super) fn pairs(text: &str) -> Pairs {
    match text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://")) {
        Some(rest) => of_url(rest),
        None if text.contains("://") => Err("its scheme is neither postgres nor postgresql"),
        None => of_dsn(text),
    }
}

fn of_url(rest: &str) -> Pairs {
    let (rest, fragment) = rest.split_once('#').map_or((rest, false), |(rest, _)| (rest, true));
    match plain_url(rest) {
        Ok(pairs) if !fragment => Ok(pairs),
        // coderd's own second attempt: a password that was not escaped ends at the first `@` and starts at the last `:`
        // before it.
        _ => unescaped_password(rest, fragment),
    }
}

fn plain_url(rest: &str) -> Pairs {
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let mut pairs = Vec::new();
    let place = match authority.rsplit_once('@') {
        Some((userinfo, place)) => {
            pairs.extend(credentials(userinfo)?);
            place
        }
        None => authority,
    };
    pairs.extend(place_of(place)?);
    pairs.extend(path_and_query(rest)?);
    Ok(pairs)
}

/// The first URL was no URL; the password may hold what URLs are made of.
fn unescaped_password(rest: &str, fragment: bool) -> Pairs {
    const BROKEN: &str = "it is not a URL; a password with special characters must be percent-encoded";
    if fragment {
        return Err(BROKEN);
    }
    let (userinfo, rest) = rest.split_once('@').ok_or(BROKEN)?;
    let (user, password) = userinfo.rsplit_once(':').ok_or(BROKEN)?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (place, rest) = rest.split_at(end);
    let user = decoded(user, false).ok_or(BROKEN)?;
    let mut pairs = vec![("user".to_owned(), user), ("password".to_owned(), text(password))];
    pairs.extend(place_of(place).map_err(|_| BROKEN)?);
    pairs.extend(path_and_query(rest)?);
    Ok(pairs)
}

/// User and password, with the characters Go allows there.
fn credentials(userinfo: &str) -> Pairs {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !userinfo.bytes().all(allowed) {
        return Err("its user or password has characters that must be percent-encoded");
    }
    let (user, password) =
        userinfo.split_once(':').map_or((userinfo, None), |(user, rest)| (user, Some(rest)));
    let read = |text| decoded(text, false).ok_or("its user or password has a broken percent-encoding");
    let mut pairs = vec![("user".to_owned(), read(user)?)];
    if let Some(password) = password {
        pairs.push(("password".to_owned(), read(password)?));
    }
    Ok(pairs)
}

fn place_of(place: &str) -> Pairs {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or("its host has an open bracket")?;
            match rest.strip_prefix(':') {
                Some(port) => (host, port),
                None if rest.is_empty() => (host, ""),
                None => return Err("its host cannot be read"),
            }
        }
        None => place.rsplit_once(':').unwrap_or((place, "")),
    };
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("its port is not a number");
    }
    let host = decoded(host, false).ok_or("its host has a broken percent-encoding")?;
    let given = [("host", host), ("port", text(port))];
    Ok(given.into_iter().filter(|(_, v)| !v.is_empty()).map(|(k, v)| (k.to_owned(), v)).collect())
}

fn path_and_query(rest: &str) -> Pairs {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut pairs = Vec::new();
    let name = decoded(path.strip_prefix('/').unwrap_or(path), false);
    let name = name.ok_or("its database name has a broken percent-encoding")?;
    if !name.is_empty() {
        pairs.push(("dbname".to_owned(), name));
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let both = decoded(name, true).zip(decoded(value, true));
        let (name, value) = both.ok_or("a parameter has a broken percent-encoding")?;
        pairs.push((name.to_string(), value));
    }
    Ok(pairs)
}

/// Percent-decoding; in a query `+` is a blank.
fn decoded(encoded: &str, query: bool) -> Option<Text> {
    // As large as it can get: whatever is moved to a larger place stays behind in the smaller one.
    let mut bytes = Zeroizing::new(Vec::with_capacity(encoded.len()));
    let mut rest = encoded.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                u8::try_from(high * 16 + low).ok()?
            }
            b'+' if query => b' ',
            other => other,
        });
    }
    std::str::from_utf8(&bytes).ok().map(text)
}

fn text(plain: &str) -> Text {
    Zeroizing::new(plain.to_owned())
}

/// `name=value` pairs divided by blanks; values may be quoted, and a backslash keeps the next character.
fn of_dsn(text: &str) -> Pairs {
    const BROKEN: &str = "it is neither a URL nor a list of name=value pairs";
    let mut letters = text.chars().peekable();
    let mut pairs = Vec::new();
    loop {
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        if letters.peek().is_none() {
            break;
        }
        let mut name = String::new();
        while let Some(letter) = letters.next_if(|letter| *letter != '=' && !letter.is_whitespace()) {
            name.push(letter);
        }
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        if letters.next() != Some('=') || name.is_empty() {
            return Err(BROKEN);
        }
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        let quoted = letters.next_if_eq(&'\'').is_some();
        let mut value = Zeroizing::new(String::with_capacity(text.len()));
        loop {
            match letters.next() {
                Some('\'') if quoted => break,
                Some('\\') => value.push(letters.next().ok_or(BROKEN)?),
                Some(letter) if !quoted && letter.is_whitespace() => break,
                Some(letter) => value.push(letter),
                None if quoted => return Err(BROKEN),
                None => break,
            }
        }
        pairs.push((name, value));
    }
    if pairs.is_empty() { Err("it is empty") } else { Ok(pairs) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        pairs(text).unwrap().iter().map(|(name, value)| format!("{name}={}|", value.as_str())).collect()
    }

    #[test]
    fn urls_are_taken_apart() {
        assert_eq!(
            read("postgres://u%40x:p%2Fw@db:5433/co%64er?sslmode=disable&a=b+c"),
            "user=u@x|password=p/w|host=db|port=5433|dbname=coder|sslmode=disable|a=b c|"
        );
        assert_eq!(read("postgresql://u@[::1]:1"), "user=u|host=::1|port=1|");
        assert_eq!(read("postgres://db"), "host=db|");
        assert_eq!(read("postgres:///coder?host=db"), "dbname=coder|host=db|");
    }

    #[test]
    fn a_password_that_was_not_escaped_is_read_as_coderd_reads_it() {
        assert_eq!(read("postgres://u:p/w?x@db:1/c"), "user=u|password=p/w?x|host=db|port=1|dbname=c|");
        assert_eq!(read("postgres://u:p<%w@db/c"), "user=u|password=p<%w|host=db|dbname=c|");
    }

    #[test]
    fn lists_of_pairs_are_taken_apart() {
        assert_eq!(
            read(r"host=db  user = 'a b' password='it\'s \\ x' port=5"),
            r"host=db|user=a b|password=it's \ x|port=5|"
        );
        assert_eq!(read("host=db password="), "host=db|password=|");
    }

    #[test]
    fn broken_texts_are_refused() {
        for text in [
            "",
            "  ",
            "nonsense",
            "=x",
            "host='db",
            "host=a\\",
            "mysql://u:p@db/c",
            "postgres://u:p@db:x/c",
            "postgres://u:%zz@[db/c",
            "postgres://u:p@db/c?a=%z",
            "postgres://u:p@db/%zz",
            "postgres://u:p#w@db/c",
        ] {
            assert!(pairs(text).is_err(), "{text}: {:?}", pairs(text).map(|pairs| pairs.len()));
        }
    }
}
