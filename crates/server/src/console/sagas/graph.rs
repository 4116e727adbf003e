//! The steps of a saga and what depends on what, drawn.

use askama::Template;
use askama::filters::HtmlSafe;
use backstitch::Insight;

use crate::console::parts::step_look;

const BOX_WIDTH: usize = 168;
const BOX_HEIGHT: usize = 40;
const GAP_X: usize = 44;
const GAP_Y: usize = 16;
/// Letters of an id that have room in a box.
const ROOM: usize = 20;
/// Steps that are drawn: more of them are a list.
const MOST: usize = 120;

/// The drawing.
#[derive(Template)]
#[template(path = "sagas/graph.html")]
pub(super) struct Graph {
    nodes: Vec<Node>,
    edges: Vec<String>,
    width: usize,
    height: usize,
}

impl HtmlSafe for Graph {}

struct Node {
    x: usize,
    y: usize,
    name: String,
    whole: String,
    word: &'static str,
    shape: &'static str,
    class: &'static str,
}

impl Graph {
    /// Nothing where there are too many steps to be seen.
    pub(super) fn of(insight: &Insight) -> Option<Self> {
        let count = insight.steps.len();
        if count > MOST {
            return None;
        }
        let depends_on: Vec<&[usize]> = insight.steps.iter().map(|step| step.depends_on.as_slice()).collect();
        let columns = columns(&depends_on);
        let mut heights = vec![0; columns.iter().max().map_or(0, |last| last + 1)];
        let mut places = Vec::with_capacity(count);
        for &column in &columns {
            places.push((column * (BOX_WIDTH + GAP_X), heights[column] * (BOX_HEIGHT + GAP_Y)));
            heights[column] += 1;
        }
        let middle = BOX_HEIGHT / 2;
        let edge = |from: usize, to: usize| {
            let ((x, y), (to_x, to_y)) = (places[from], places[to]);
            let (x, y, to_y) = (x + BOX_WIDTH, y + middle, to_y + middle);
            let turn = (x + to_x) / 2;
            format!("M{x} {y}C{turn} {y} {turn} {to_y} {to_x} {to_y}")
        };
        let edges =
            depends_on.iter().enumerate().flat_map(|(to, before)| before.iter().map(move |&from| (from, to)));
        let nodes = insight.saga.steps.iter().zip(&places).map(|(step, &(x, y))| {
            let (word, shape, mood) = step_look(step.status);
            let whole = step.id.to_string();
            let short = whole.chars().count() > ROOM;
            let name =
                if short { whole.chars().take(ROOM - 1).chain(['…']).collect() } else { whole.clone() };
            Node { x, y, name, whole, word, shape, class: mood.class() }
        });
        Some(Self {
            edges: edges.map(|(from, to)| edge(from, to)).collect(),
            nodes: nodes.collect(),
            width: heights.len() * (BOX_WIDTH + GAP_X) - GAP_X.min(heights.len() * GAP_X),
            height: heights.iter().max().copied().unwrap_or_default() * (BOX_HEIGHT + GAP_Y),
        })
    }
}

/// How many steps come one after the other before each: what it depends on stands to its left.
fn columns(depends_on: &[&[usize]]) -> Vec<usize> {
    let mut columns = vec![0; depends_on.len()];
    // Once for each step is enough, in whatever order they are declared.
    for _ in 0..depends_on.len() {
        let mut changed = false;
        for (step, before) in depends_on.iter().enumerate() {
            let column = before.iter().map(|&it| columns[it] + 1).max().unwrap_or_default();
            changed |= std::mem::replace(&mut columns[step], column) != column;
        }
        if !changed {
            break;
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_step_depends_on_stands_to_its_left() {
        assert_eq!(columns(&[&[], &[0], &[0], &[1, 2], &[]]), [0, 1, 1, 2, 0]);
        assert_eq!(columns(&[&[2], &[0], &[]]), [1, 2, 0], "in whatever order they are declared");
        assert!(columns(&[]).is_empty());
    }
}
