//! Boxes and what leads from one to another, drawn from left to right.

use askama::Template;
use askama::filters::HtmlSafe;

use super::parts::{Mood, shortened};

const BOX_WIDTH: usize = 168;
const BOX_HEIGHT: usize = 40;
const GAP_X: usize = 44;
const GAP_Y: usize = 16;
/// Letters of a name that have room in a box.
const ROOM: usize = 20;
/// Boxes that are drawn: more of them are a list.
const MOST: usize = 120;

/// The drawing.
#[derive(Template)]
#[template(path = "drawing.html")]
pub(crate) struct Drawing {
    told: &'static str,
    boxes: Vec<Placed>,
    edges: Vec<Edge>,
    width: usize,
    height: usize,
}

impl HtmlSafe for Drawing {}

/// What a box says.
pub(crate) struct Spot {
    pub(crate) name: String,
    pub(crate) word: String,
    pub(crate) shape: &'static str,
    pub(crate) mood: Mood,
    /// Where it leads, if anywhere.
    pub(crate) place: Option<String>,
}

struct Placed {
    x: usize,
    y: usize,
    short: String,
    spot: Spot,
}

struct Edge {
    path: String,
    is_back: bool,
}

impl Drawing {
    /// What is one picture hides the links in it from whoever listens to the page.
    fn role(&self) -> &'static str {
        if self.boxes.iter().any(|it| it.spot.place.is_some()) { "group" } else { "img" }
    }

    /// Nothing where there is too much to be seen.
    pub(crate) fn of(told: &'static str, spots: Vec<Spot>, edges: &[(usize, usize)]) -> Option<Self> {
        if spots.len() > MOST {
            return None;
        }
        let columns = columns(spots.len(), edges);
        let mut heights = vec![0; columns.iter().max().map_or(0, |last| last + 1)];
        let mut places = Vec::with_capacity(spots.len());
        for &column in &columns {
            places.push((column * (BOX_WIDTH + GAP_X), heights[column] * (BOX_HEIGHT + GAP_Y)));
            heights[column] += 1;
        }
        let boxes = spots.into_iter().zip(&places).map(|(spot, &(x, y))| Placed {
            x,
            y,
            short: shortened(&spot.name, ROOM),
            spot,
        });
        let rows = heights.iter().max().copied().unwrap_or_default();
        let has_back = edges.iter().any(|&(from, to)| columns[from] >= columns[to]);
        Some(Self {
            told,
            edges: edges.iter().map(|&(from, to)| edge(places[from], places[to])).collect(),
            boxes: boxes.collect(),
            width: (heights.len() * (BOX_WIDTH + GAP_X)).saturating_sub(GAP_X),
            height: rows * (BOX_HEIGHT + GAP_Y) + if has_back { GAP_X } else { 0 },
        })
    }
}

/// To the right it goes from side to side; whatever leads back goes below the boxes.
fn edge((x, y): (usize, usize), (to_x, to_y): (usize, usize)) -> Edge {
    if to_x > x {
        let (x, y, to_y) = (x + BOX_WIDTH, y + BOX_HEIGHT / 2, to_y + BOX_HEIGHT / 2);
        let turn = usize::midpoint(x, to_x);
        return Edge { path: format!("M{x} {y}C{turn} {y} {turn} {to_y} {to_x} {to_y}"), is_back: false };
    }
    // Not from the very middle, so that there and back are told apart.
    let (x, y) = (x + BOX_WIDTH / 3, y + BOX_HEIGHT);
    let (to_x, to_y) = (to_x + 2 * BOX_WIDTH / 3, to_y + BOX_HEIGHT);
    let below = y.max(to_y) + GAP_X;
    Edge { path: format!("M{x} {y}C{x} {below} {to_x} {below} {to_x} {to_y}"), is_back: true }
}

/// How many come one after the other before each: what leads to it stands to its left, but for what leads back.
fn columns(count: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut follows = vec![Vec::new(); count];
    for &(from, to) in edges.iter().filter(|(from, to)| from != to) {
        follows[from].push(to);
    }
    let ahead = without_back_edges(&follows);
    let mut columns = vec![0; count];
    // Once for each is enough, in whatever order they are declared.
    for _ in 0..count {
        let mut changed = false;
        for &(from, to) in &ahead {
            if columns[to] <= columns[from] {
                columns[to] = columns[from] + 1;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    columns
}

/// What leads on and never back to where one came from, looked for from the first on.
fn without_back_edges(follows: &[Vec<usize>]) -> Vec<(usize, usize)> {
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Seen {
        Not,
        OnTheWay,
        Done,
    }
    let mut seen = vec![Seen::Not; follows.len()];
    let mut ahead = Vec::new();
    for first in 0..follows.len() {
        if seen[first] != Seen::Not {
            continue;
        }
        seen[first] = Seen::OnTheWay;
        let mut way = vec![(first, follows[first].iter())];
        while let Some((from, rest)) = way.last_mut() {
            let from = *from;
            match rest.next() {
                Some(&to) if seen[to] == Seen::OnTheWay => {}
                Some(&to) => {
                    ahead.push((from, to));
                    if seen[to] == Seen::Not {
                        seen[to] = Seen::OnTheWay;
                        way.push((to, follows[to].iter()));
                    }
                }
                None => {
                    seen[from] = Seen::Done;
                    way.pop();
                }
            }
        }
    }
    ahead
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_something_depends_on_stands_to_its_left() {
        assert_eq!(columns(5, &[(0, 1), (0, 2), (1, 3), (2, 3)]), [0, 1, 1, 2, 0]);
        assert_eq!(columns(3, &[(2, 0), (0, 1)]), [1, 2, 0], "in whatever order they are declared");
        assert!(columns(0, &[]).is_empty());
    }

    #[test]
    fn what_leads_back_moves_nothing_to_the_right() {
        assert_eq!(columns(3, &[(0, 1), (1, 2), (2, 0), (1, 1)]), [0, 1, 2]);
        assert_eq!(columns(4, &[(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 0)]), [0, 1, 2, 3]);
        assert_eq!(columns(2, &[(1, 1)]), [0, 0], "alone with itself");
    }

    #[test]
    fn a_name_is_shortened_in_its_box_and_whole_in_its_title() {
        let spot = Spot {
            name: "a<b>-with-a-very-long-name".to_owned(),
            word: "waits".to_owned(),
            shape: "○",
            mood: Mood::Waiting,
            place: None,
        };
        let drawn = Drawing::of("boxes", vec![spot], &[(0, 0)]).unwrap().render().unwrap();
        assert!(drawn.contains("a&#60;b&#62;-with-a-very-long-name: waits"), "{drawn}");
        assert!(drawn.contains("a&#60;b&#62;-with-a-very-lo…"), "{drawn}");
    }
}
