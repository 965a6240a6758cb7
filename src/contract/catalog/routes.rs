//! Path templates as a tree: which row is a path's, in a number of steps that does not grow with
//! the number of rows.
//!
//! Each step looks up one segment, or a beginning or an end of one, in a hash table. Only where a
//! segment can be read in several ways, as a literal and as a parameter, may a look-up have to come
//! back and take the other way; [`longest_lookup`](Routes::longest_lookup) says what that can cost
//! at most.

use std::collections::HashMap;

#[cfg(not(test))]
use super::text_hash::TextHash;
#[cfg(test)]
use tests::Counting as TextHash;

use crate::contract::path_template::{PathTemplate, Segment, first_segment};

/// The templates that begin alike, from some segment on.
#[derive(Clone, Default)]
pub(super) struct Routes {
    /// The row whose template ends here.
    row: Option<usize>,
    literals: Texts<Routes>,
    /// Most places have none.
    gaps: Option<Box<Gaps>>,
}

/// Segments that are not literal, the more specific first.
#[derive(Clone, Default)]
struct Gaps {
    /// Parameters with text around them: by what stands before, then by what stands behind.
    affixed: Affixes<Affixes<Routes>>,
    parameter: Option<Routes>,
    /// By what stands before the catch-all. They end the template.
    rests: Affixes<Routes>,
}

/// Texts that something may begin with, or end with: by their length, the longest first.
#[derive(Clone)]
struct Affixes<T>(Vec<(usize, Texts<T>)>);

type Texts<T> = HashMap<Box<str>, T, TextHash>;

impl Routes {
    /// Adds the template of a row.
    ///
    /// # Errors
    /// The row that is there already: its template has the same segments but for the names of
    /// parameters.
    pub(super) fn insert(&mut self, template: &PathTemplate, row: usize) -> Result<(), usize> {
        let end = template.segments().iter().fold(self, |routes, segment| match segment {
            Segment::Literal(text) => routes.literals.entry(text.as_str().into()).or_default(),
            Segment::Parameter { before, behind, .. } if before.is_empty() && behind.is_empty() => {
                routes.gaps().parameter.get_or_insert_default()
            }
            Segment::Parameter { before, behind, .. } => routes.gaps().affixed.entry(before).entry(behind),
            Segment::Rest { before, .. } => routes.gaps().rests.entry(before),
        });
        match end.row {
            Some(earlier) => Err(earlier),
            None => {
                end.row = Some(row);
                Ok(())
            }
        }
    }

    /// The row of a path in its one spelling, without the leading slash. Of several the one that is
    /// more specific in the first segment in which they differ.
    pub(super) fn find(&self, path: &str) -> Option<usize> {
        let (segment, left) = first_segment(path);
        let go_on = |routes: &Self| left.map_or(routes.row, |left| routes.find(left));
        self.literals.get(segment).and_then(go_on).or_else(|| {
            let Gaps { affixed, parameter, rests } = self.gaps.as_deref()?;
            let affixed = affixed.begin(segment).flat_map(|(ends, left)| ends.end(left));
            let affixed = affixed.filter(|(_, value)| !value.is_empty()).map(|(routes, _)| routes);
            let parameter = parameter.iter().filter(|_| !segment.is_empty());
            affixed.chain(parameter).find_map(go_on).or_else(|| {
                let rests = rests.begin(path).filter(|(_, value)| !value.is_empty());
                rests.map(|(routes, _)| routes).find_map(|routes| routes.row)
            })
        })
    }

    /// How many steps a look-up takes at most, whatever the path.
    pub(super) fn longest_lookup(&self) -> usize {
        let literals = self.literals.values().map(Self::longest_lookup).max().unwrap_or(0);
        let gaps = self.gaps.as_ref().map_or(0, |gaps| {
            gaps.affixed.longest_lookup(|ends| ends.longest_lookup(Self::longest_lookup))
                + gaps.parameter.as_ref().map_or(0, Self::longest_lookup)
                + gaps.rests.longest_lookup(|_| 0)
        });
        1 + literals + gaps
    }

    fn gaps(&mut self) -> &mut Gaps {
        self.gaps.get_or_insert_default()
    }
}

impl<T: Default> Affixes<T> {
    fn entry(&mut self, affix: &str) -> &mut T {
        let place = self.0.partition_point(|(length, _)| *length > affix.len());
        if self.0.get(place).is_none_or(|(length, _)| *length != affix.len()) {
            self.0.insert(place, (affix.len(), HashMap::default()));
        }
        self.0[place].1.entry(affix.into()).or_default() // proof: just found or just inserted
    }
}

impl<T> Affixes<T> {
    /// What belongs to the beginnings of a text, each with the text behind it.
    fn begin<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (&'a T, &'a str)> {
        self.0.iter().filter_map(|(length, affixes)| {
            let (affix, left) = text.split_at_checked(*length)?;
            Some((affixes.get(affix)?, left))
        })
    }

    /// What belongs to the ends of a text, each with the text before it.
    fn end<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (&'a T, &'a str)> {
        self.0.iter().filter_map(|(length, affixes)| {
            let (left, affix) = text.split_at_checked(text.len().checked_sub(*length)?)?;
            Some((affixes.get(affix)?, left))
        })
    }

    /// As [`Routes::longest_lookup`]: of each length a text has one beginning and one end.
    fn longest_lookup(&self, of: impl Fn(&T) -> usize) -> usize {
        self.0.iter().map(|(_, affixes)| 1 + affixes.values().map(&of).max().unwrap_or(0)).sum()
    }
}

impl<T> Default for Affixes<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        cmp::{Ordering, Reverse},
        hash::BuildHasher,
    };

    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::contract::catalog::text_hash::TextHasher;

    thread_local! {
        static HASHED: Cell<usize> = const { Cell::new(0) };
    }

    /// Counts the keys that are looked up.
    #[derive(Clone, Default)]
    pub(super) struct Counting;

    impl BuildHasher for Counting {
        type Hasher = TextHasher;

        fn build_hasher(&self) -> TextHasher {
            HASHED.set(HASHED.get() + 1);
            TextHasher::default()
        }
    }

    fn routes(templates: impl IntoIterator<Item = String>) -> Routes {
        let mut routes = Routes::default();
        for (row, template) in templates.into_iter().enumerate() {
            routes.insert(&PathTemplate::parse(&template).unwrap(), row).unwrap();
        }
        routes
    }

    /// The row of a path, and how many keys were looked up for it.
    fn counted(routes: &Routes, path: &str) -> (Option<usize>, usize) {
        let before = HASHED.get();
        (routes.find(path.strip_prefix('/').unwrap()), HASHED.get() - before)
    }

    #[test]
    fn a_look_up_takes_as_many_steps_in_ten_rows_as_in_ten_thousand() {
        let families: [fn(usize) -> String; 5] = [
            |n| format!("/v1/thing{n:05}"),
            |n| format!("/v1/{{id}}:act{n:05}"),
            |n| format!("/v1/act{n:05}:{{id}}/x"),
            |n| format!("/v1/{{id}}/thing{n:05}/{{other}}"),
            |n| format!("/v1/thing{n:05}/{{*rest}}"),
        ];
        for family in families {
            let steps = |rows: usize| {
                let routes = routes((0..rows).map(family));
                let last = family(rows - 1).replace("{id}", "7").replace("{other}", "8").replace("{*rest}", "a/b");
                let (found, hit) = counted(&routes, &last);
                assert_eq!(found, Some(rows - 1), "{last}");
                let (none, miss) = counted(&routes, "/v1/7:act");
                assert_eq!(none, None, "{last}");
                (hit, miss, routes.longest_lookup())
            };
            assert_eq!(steps(10), steps(10_000), "{}", family(0));
            assert!(steps(10).2 <= 8, "{}", family(0));
        }
    }

    #[test]
    fn what_is_both_literal_and_parameter_at_each_level_is_told() {
        let levels = |bits: u32| (0..6).map(|level| if bits >> level & 1 == 0 { "/a" } else { "/{p}" }).collect::<String>();
        let all = routes((0..1 << 6).map(|bits| format!("{}/end", levels(bits))));
        let (found, steps) = counted(&all, "/a/a/a/a/a/a/other");
        assert_eq!(found, None);
        assert!(steps > 100 && steps <= all.longest_lookup(), "{steps} of {}", all.longest_lookup());
        assert_eq!(counted(&all, "/a/a/a/a/a/a/end"), (Some(0), 7));
    }

    /// Which of two templates that both match is more specific: in the first segment in which they
    /// differ, as documented.
    fn by_specificity(one: &PathTemplate, other: &PathTemplate) -> Ordering {
        let rank = |segment: &Segment| match segment {
            Segment::Literal(_) => (0, Reverse(0), Reverse(0)),
            Segment::Parameter { before, behind, .. } => (1, Reverse(before.len()), Reverse(behind.len())),
            Segment::Rest { before, .. } => (2, Reverse(before.len()), Reverse(0)),
        };
        one.segments().iter().map(rank).cmp(other.segments().iter().map(rank))
    }

    proptest! {
        #[test]
        fn the_tree_finds_what_looking_at_every_row_finds(
            texts in vec("(/(a|b|ab|aab|[ab]?\\{p\\}[ab]?|)){1,3}(/[ab]?\\{\\*r\\})?", 1..12),
            paths in vec("(/[ab]{0,3}){1,4}", 12),
        ) {
            let mut tree = Routes::default();
            let mut list: Vec<(usize, PathTemplate)> = vec![];
            for (row, text) in texts.iter().enumerate() {
                let template = PathTemplate::parse(text).unwrap();
                let there = list.iter().find(|(_, other)| by_specificity(other, &template).is_eq() && literals(other) == literals(&template));
                prop_assert_eq!(tree.insert(&template, row), there.map_or(Ok(()), |(row, _)| Err(*row)));
                if there.is_none() {
                    list.push((row, template));
                }
            }
            for path in paths {
                let matching = list.iter().filter(|(_, template)| template.captures(&path).is_some());
                let best = matching.min_by(|(_, one), (_, other)| by_specificity(one, other)).map(|(row, _)| *row);
                let (found, steps) = counted(&tree, &path);
                prop_assert_eq!(found, best, "{} in {:?}", path, texts);
                prop_assert!(steps <= tree.longest_lookup());
            }
        }
    }

    fn literals(template: &PathTemplate) -> Vec<(&str, &str)> {
        let texts = template.segments().iter().map(|segment| match segment {
            Segment::Literal(text) => (text.as_str(), ""),
            Segment::Parameter { before, behind, .. } => (before.as_str(), behind.as_str()),
            Segment::Rest { before, .. } => (before.as_str(), ""),
        });
        texts.collect()
    }
}
