//! Path templates: `/orders/{id}`, `/orders/{id}:cancel`, `/files/{*path}`.

use std::borrow::Cow;

use crate::contract::spelling::canonical;

/// A path with gaps, its literal parts in their [one spelling](canonical).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathTemplate {
    segments: Vec<Segment>,
}

/// What stands between two slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    Literal(String),
    /// Stands for at least one character, with these texts before and behind it.
    Parameter {
        before: String,
        name: String,
        behind: String,
    },
    /// Stands for everything that is left, at least one character, with this text before it.
    Rest {
        before: String,
        name: String,
    },
}

/// Why a text is no template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InvalidTemplate {
    /// No absolute path, braces that do not match, a parameter without a name, two in a segment, a
    /// catch-all before the end, or more than [`MOST_SEGMENTS`](PathTemplate::MOST_SEGMENTS).
    Unreadable,
    /// A segment is a parameter in the spelling of other routers, which would match nothing here.
    Foreign {
        /// The same in ours.
        instead: String,
    },
}

/// Where a segment stands: only the last one can be a catch-all.
#[derive(Clone, Copy)]
enum Place {
    Before,
    Last,
}

impl PathTemplate {
    /// More than any URL has; a look-up goes down one call for each.
    pub(crate) const MOST_SEGMENTS: usize = 128;

    pub(crate) fn parse(text: &str) -> Result<Self, InvalidTemplate> {
        let path = text.strip_prefix('/').filter(|path| !path.contains(['?', '#'])).ok_or(InvalidTemplate::Unreadable)?;
        let last = path.split('/').count() - 1;
        let segment = |(place, text)| Segment::parse(text, if place == last { Place::Last } else { Place::Before });
        let segments = path.split('/').enumerate().map(segment).collect::<Result<Vec<_>, _>>()?;
        let catch_all = segments.iter().position(|segment| matches!(segment, Segment::Rest { .. }));
        if segments.len() > Self::MOST_SEGMENTS || catch_all.is_some_and(|place| place + 1 < segments.len()) {
            return Err(InvalidTemplate::Unreadable);
        }
        Ok(Self { segments })
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    pub(crate) fn has_parameter(&self, name: &str) -> bool {
        self.segments.iter().any(|segment| segment.name() == Some(name))
    }

    /// The parameters of a path in its one spelling; `None` where the path is another one.
    pub(crate) fn captures<'a>(&'a self, path: &'a str) -> Option<Vec<(&'a str, &'a str)>> {
        let mut captures = Vec::new();
        let mut left = path.strip_prefix('/');
        for segment in &self.segments {
            let text = left?;
            let (here, after) = first_segment(text);
            let (value, after) = match segment {
                Segment::Literal(literal) => {
                    if literal != here {
                        return None;
                    }
                    left = after;
                    continue;
                }
                Segment::Parameter { before, behind, .. } => (here.strip_prefix(before.as_str())?.strip_suffix(behind.as_str())?, after),
                Segment::Rest { before, .. } => (text.strip_prefix(before.as_str())?, None),
            };
            if value.is_empty() {
                return None;
            }
            captures.extend(segment.name().map(|name| (name, value)));
            left = after;
        }
        left.is_none().then_some(captures)
    }
}

/// The first segment of a path without its leading slash, and the path behind it.
pub(crate) fn first_segment(path: &str) -> (&str, Option<&str>) {
    match path.bytes().position(|byte| byte == b'/') {
        Some(end) => (path.get(..end).unwrap_or_default(), path.get(end + 1..)),
        None => (path, None),
    }
}

impl Segment {
    fn parse(text: &str, place: Place) -> Result<Self, InvalidTemplate> {
        if let Some(instead) = foreign(text, place) {
            return Err(InvalidTemplate::Foreign { instead });
        }
        Self::read(text).ok_or(InvalidTemplate::Unreadable)
    }

    fn read(text: &str) -> Option<Self> {
        let (before, parameter) = literal(text)?;
        let Some((name, behind)) = parameter else { return Some(Self::Literal(before)) };
        let (behind, another) = literal(behind)?;
        let (catch_all, name) = name.strip_prefix('*').map_or((false, name), |name| (true, name));
        if another.is_some() || name.is_empty() || name.contains(['*', '{']) || (catch_all && !behind.is_empty()) {
            return None;
        }
        let name = name.to_owned();
        Some(if catch_all { Self::Rest { before, name } } else { Self::Parameter { before, name, behind } })
    }

    fn name(&self) -> Option<&str> {
        match self {
            Self::Literal(_) => None,
            Self::Parameter { name, .. } | Self::Rest { name, .. } => Some(name),
        }
    }
}

/// The literal text up to the first parameter, then that parameter's name and what stands behind
/// it. `{{` and `}}` are braces.
fn literal(text: &str) -> Option<(String, Option<(&str, &str)>)> {
    let mut unescaped = Cow::Borrowed("");
    let mut rest = text;
    loop {
        let (plain, tail) = rest.split_at(rest.find(['{', '}']).unwrap_or(rest.len()));
        unescaped += plain;
        rest = if let Some(after) = tail.strip_prefix("{{") {
            unescaped += "{";
            after
        } else if let Some(after) = tail.strip_prefix("}}") {
            unescaped += "}";
            after
        } else {
            let parameter = match tail.strip_prefix('{') {
                Some(parameter) => Some(parameter.split_once('}')?),
                None if tail.is_empty() => None,
                None => return None,
            };
            return Some((canonical(&unescaped).into_owned(), parameter));
        };
    }
}

/// `*`, `**` and `*rest`, `:id`, `<id>`: ours for the parameters of other routers.
fn foreign(segment: &str, place: Place) -> Option<String> {
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if let Some(name) = segment.strip_prefix('*') {
        let name = name.trim_start_matches('*');
        let (star, unnamed) = match place {
            Place::Last => ("*", "rest"),
            Place::Before => ("", "any"),
        };
        let ours = |name: &str| format!("{{{star}{name}}}");
        return if name.is_empty() { Some(ours(unnamed)) } else { is_name(name).then(|| ours(name)) };
    }
    let name = segment.strip_prefix(':').or_else(|| segment.strip_prefix('<')?.strip_suffix('>'))?;
    is_name(name).then(|| format!("{{{name}}}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn captured<'a>(template: &'a PathTemplate, path: &'a str) -> Option<String> {
        let pairs = template.captures(path)?;
        Some(pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_template_takes_its_parameters_out_of_a_path() {
        let cases = [
            ("/", "/", Some("")),
            ("/", "", None),
            ("/", "//", None),
            ("/orders", "/orders", Some("")),
            ("/orders", "/orders/", None),
            ("/orders/", "/orders/", Some("")),
            ("/orders/{id}", "/orders/7", Some("id=7")),
            ("/orders/{id}", "/orders/", None),
            ("/orders/{id}", "/orders/7/items", None),
            ("/orders/{id}/items/{item}", "/orders/7/items/8", Some("id=7 item=8")),
            ("/orders/{id}:cancel", "/orders/7:cancel", Some("id=7")),
            ("/orders/{id}:cancel", "/orders/:cancel", None),
            ("/orders/{id}:cancel", "/orders/7:cancel:cancel", Some("id=7:cancel")),
            ("/v{major}.x", "/v1.x", Some("major=1")),
            ("/aa{b}aa", "/aaa", None),
            ("/files/{*path}", "/files/a/b/", Some("path=a/b/")),
            ("/files/{*path}", "/files//", Some("path=/")),
            ("/files/{*path}", "/files/", None),
            ("/files/v{*path}", "/files/v1/a", Some("path=1/a")),
            ("/files/v{*path}", "/files/v", None),
            ("/{{id}}", "/%7Bid%7D", Some("")),
            ("/%6Frders/caf%c3%a9", "/orders/caf%C3%A9", Some("")),
        ];
        for (template, path, expected) in cases {
            assert_eq!(captured(&PathTemplate::parse(template).unwrap(), path).as_deref(), expected, "{template} {path}");
        }
    }

    #[test]
    fn what_is_no_template_is_refused() {
        let texts =
            ["", "orders", "/a?b", "/a#b", "/{", "/}", "/{a", "/a}", "/{}", "/{*}", "/{**a}", "/{a*}", "/{a/b}", "/{a}{b}", "/{a}x{b}"];
        for text in texts.into_iter().chain(["/{*rest}/b", "/{*rest}b", "/{a{b}", "/{{a}", "/{*a}{*b}"]) {
            assert_eq!(PathTemplate::parse(text), Err(InvalidTemplate::Unreadable), "{text}");
        }
        let deep = "/a".repeat(PathTemplate::MOST_SEGMENTS);
        PathTemplate::parse(&deep).unwrap();
        assert_eq!(PathTemplate::parse(&format!("{deep}/a")), Err(InvalidTemplate::Unreadable));
    }

    #[test]
    fn a_parameter_in_the_spelling_of_another_router_is_told_in_ours() {
        let cases = [
            ("/*", "{*rest}"),
            ("/a/**", "{*rest}"),
            ("/a/*path", "{*path}"),
            ("/a/*/b", "{any}"),
            ("/a/*path/b", "{path}"),
            ("/a/:id/b", "{id}"),
            ("/a/<id>", "{id}"),
        ];
        for (text, instead) in cases {
            assert_eq!(PathTemplate::parse(text), Err(InvalidTemplate::Foreign { instead: instead.to_owned() }), "{text}");
        }
        for text in ["/a*", "/{id}:cancel", "/a:b", "/:", "/*.js", "/{id}*", "/:{id}"] {
            PathTemplate::parse(text).unwrap();
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in "/?([{}%*a-c/:<>]|\\PC){0,12}", path in "/?([a-c/%]|\\PC){0,12}") {
            if let Ok(template) = PathTemplate::parse(&text) {
                template.captures(&path);
            }
        }
    }
}
