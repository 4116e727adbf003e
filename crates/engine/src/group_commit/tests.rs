use std::sync::Mutex;

use super::*;

/// Numbers; what it writes is recorded by group.
#[derive(Clone)]
struct Numbers<const ISOLATES: bool> {
    size: usize,
    groups: Arc<Mutex<Vec<Vec<u32>>>>,
    write: fn(&[u32]) -> Result<Vec<u32>, store::Error>,
}

const PANICS: u32 = 1000;

impl<const ISOLATES: bool> GroupWriter for Numbers<ISOLATES> {
    type Item = (u32, usize);
    type Answer = u32;

    const ISOLATES: bool = ISOLATES;

    fn bytes((_, size): &(u32, usize)) -> usize {
        *size
    }

    async fn write(&self, items: &[(u32, usize)]) -> Result<Vec<u32>, store::Error> {
        // Others come meanwhile.
        tokio::task::yield_now().await;
        let numbers: Vec<u32> = items.iter().map(|(number, _)| *number).collect();
        self.groups.lock().unwrap().push(numbers.clone());
        assert!(!numbers.contains(&PANICS), "as told");
        (self.write)(&numbers)
    }
}

impl<const ISOLATES: bool> Numbers<ISOLATES> {
    fn new(size: usize, write: fn(&[u32]) -> Result<Vec<u32>, store::Error>) -> Self {
        Self { size, groups: Arc::default(), write }
    }

    /// Writes all of these at once.
    async fn written(&self, writers: Writers, numbers: &[u32]) -> Vec<Result<u32, NotWritten>> {
        let group = GroupCommit::start(self, writers, Pace::unlimited()).unwrap();
        let all = numbers.iter().map(|number| group.write((*number, self.size)));
        let results = futures::future::join_all(all).await;
        assert!(group.close(Duration::from_secs(60)).await);
        assert!(matches!(group.write((1, 0)).await, Err(NotWritten::Closed)));
        results
    }
}

const ALL: fn(&[u32]) -> Result<Vec<u32>, store::Error> = |numbers| Ok(numbers.to_vec());

fn even(numbers: &[u32]) -> Result<Vec<u32>, store::Error> {
    let odd = numbers.iter().find(|number| *number % 2 == 1);
    odd.map_or_else(|| ALL(numbers), |odd| Err(store::Error::Refused(odd.to_string())))
}

#[tokio::test]
async fn group_has_no_more_items_and_bytes_than_allowed() {
    const MAX_BYTES: usize = Numbers::<true>::MAX_BYTES;
    for (size, most) in [(10, Numbers::<true>::MAX_ITEMS), (MAX_BYTES / 4, 4), (MAX_BYTES * 2, 1)] {
        let numbers: Vec<u32> = (0..600).collect();
        let writer = Numbers::<true>::new(size, ALL);
        let results = writer.written(Writers::Tasks(1), &numbers).await;
        assert!(results.into_iter().map(Result::unwrap).eq(numbers), "each has its own answer");
        let groups = writer.groups.lock().unwrap();
        assert_eq!(groups.iter().map(Vec::len).max(), Some(most), "{size} bytes each");
        assert!(groups.iter().flatten().copied().eq(0..600), "in the order they came");
    }
}

#[tokio::test]
async fn refused_item_fails_alone_where_groups_are_isolated() {
    let results = Numbers::<true>::new(0, even).written(Writers::Tasks(1), &[2, 4, 5, 6]).await;
    let written: Vec<_> = results.iter().map(|result| result.as_ref().ok().copied()).collect();
    assert_eq!(written, [Some(2), Some(4), None, Some(6)]);

    let writer = Numbers::<false>::new(0, even);
    let results = writer.written(Writers::Tasks(1), &[2, 4, 5, 6]).await;
    assert!(results.iter().all(|result| matches!(result, Err(NotWritten::Store(_)))));
    assert_eq!(*writer.groups.lock().unwrap(), [[2, 4, 5, 6]], "it is written once");
}

#[tokio::test]
async fn panic_of_a_write_is_an_error_of_its_group_alone() {
    for writers in [Writers::OwnThread, Writers::Tasks(2)] {
        let group = GroupCommit::start(&Numbers::<true>::new(0, ALL), writers, Pace::unlimited()).unwrap();
        let refused = group.write((PANICS, 0)).await;
        let Err(NotWritten::Store(why)) = refused else { panic!("{writers:?}: it is written") };
        assert!(matches!(&*why, store::Error::Unavailable(_)), "{why}");
        assert!(group.written().failure().is_some());
        assert_eq!(group.write((2, 0)).await.unwrap(), 2);
        assert!(group.written().failure().is_none(), "a write that worked ends the failure");
        assert_eq!(group.written().groups(), 1);
    }
}

#[tokio::test]
async fn missing_answer_is_an_error_of_the_group() {
    let results = Numbers::<false>::new(0, |_| Ok(vec![1])).written(Writers::Tasks(1), &[1, 2]).await;
    assert!(results.iter().all(|result| matches!(result, Err(NotWritten::Store(_)))));
}

#[derive(Clone)]
struct TakesTwoMillis;

impl GroupWriter for TakesTwoMillis {
    type Item = ();
    type Answer = ();

    async fn write(&self, items: &[()]) -> Result<Vec<()>, store::Error> {
        tokio::time::sleep(Duration::from_millis(2)).await;
        Ok(items.to_vec())
    }
}

#[tokio::test(start_paused = true)]
async fn pause_between_groups_is_as_long_as_a_write() {
    let pace = Pace::new(Duration::from_millis(5));
    let group = GroupCommit::start(&TakesTwoMillis, Writers::Tasks(2), pace).unwrap();
    let began = Instant::now();
    for _ in 0..4 {
        group.write(()).await.unwrap();
    }
    // The second group begins at once: no write has been timed when it is gathered.
    assert_eq!(began.elapsed(), Duration::from_millis(2 + 2 + (2 + 2) * 2));
}

#[derive(Clone)]
struct NeverAnswers;

impl GroupWriter for NeverAnswers {
    type Item = ();
    type Answer = ();

    async fn write(&self, _: &[()]) -> Result<Vec<()>, store::Error> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn close_gives_up_a_store_that_does_not_answer() {
    let group = GroupCommit::start(&NeverAnswers, Writers::Tasks(1), Pace::unlimited()).unwrap();
    let (written, is_done) = tokio::join!(group.write(()), group.close(Duration::from_secs(5)));
    assert!(!is_done);
    assert!(matches!(written, Err(NotWritten::Closed)), "its outcome is unknown");
}
