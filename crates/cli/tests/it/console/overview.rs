//! The counts on the overview, and their time range.

use crate::console::stage::on_both_stores;

/// Rows of sagas that nothing will ever move, as no program of ours would write them.
const PLANTED: [&str; 2] = [
    "with recursive n (i) as (select 1 union all select i + 1 from n where i < {count})
     insert into sagas (id, definition, version, status, created_at, updated_at)
     select unhex('019b00000000700080000000' || printf('%08x', i)), 'ghost', 1, 'running', 1000, 1000
     from n",
    "insert into sagas (id, definition, version, status, created_at, updated_at)
     select ('019b0000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, 'ghost', 1, 'running',
            timestamptz 'epoch', timestamptz 'epoch'
     from generate_series(1, {count}) as i",
];

#[tokio::test(flavor = "multi_thread")]
async fn all_stuck_sagas_are_counted_though_only_some_are_listed() {
    on_both_stores(async |stage| {
        let planted = PLANTED[usize::from(stage.place.is_shared())];
        stage.place.rows(&planted.replace("{count}", "12")).await;
        let page = stage.as_role("viewer").await.see("/").await;
        assert!(page.has("<b>12</b><span>stuck</span>"), "{}", page.text);
        let listed = page.text.split("<h2>Stuck sagas</h2>").nth(1).unwrap();
        let listed = listed.split("</table>").next().unwrap();
        assert_eq!(listed.matches("href=\"/sagas/").count(), 10, "{listed}");
        assert!(listed.contains("the longest of them"), "{listed}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plots_say_since_when_they_count() {
    on_both_stores(async |stage| {
        let page = stage.as_role("viewer").await.see("/").await;
        assert_eq!(page.text.matches("counted on this node since <time ").count(), 2, "{}", page.text);
    })
    .await;
}
