//! Metrics of the process itself, from `/proc` on Linux, under the names that Prometheus' client libraries use.

use std::fmt::Write as _;
use std::fs::read_to_string;

/// Ticks a second in `/proc`: every Linux says 100 here, whatever its timer does.
const TICKS: f64 = 100.0;

/// What a process uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ProcessUsage {
    pub(super) cpu_seconds: f64,
    pub(super) start_time_seconds: f64,
    pub(super) resident_bytes: f64,
    pub(super) virtual_bytes: f64,
    pub(super) open_fds: f64,
    pub(super) max_fds: f64,
}

impl ProcessUsage {
    /// What this process uses now; nothing where there is no `/proc`.
    pub(super) fn now() -> Option<Self> {
        let stat = Stat::parse(&read_to_string("/proc/self/stat").ok()?)?;
        let status = read_to_string("/proc/self/status").ok()?;
        let kilobytes = |name: &str| number_after(&status, name).map(|kilobytes| kilobytes * 1024.0);
        let limits = read_to_string("/proc/self/limits").ok()?;
        let open = std::fs::read_dir("/proc/self/fd").ok()?.count();
        let booted = number_after(&read_to_string("/proc/stat").ok()?, "btime ")?;
        Some(Self {
            cpu_seconds: stat.cpu_ticks / TICKS,
            start_time_seconds: booted + stat.start_ticks / TICKS,
            resident_bytes: kilobytes("VmRSS:")?,
            virtual_bytes: kilobytes("VmSize:")?,
            open_fds: f64::from(u32::try_from(open).ok()?),
            // Unlimited has no number.
            max_fds: number_after(&limits, "Max open files").unwrap_or(f64::INFINITY),
        })
    }
}

impl ProcessUsage {
    /// In Prometheus' text format. Not through the recorder, whose counters hold whole numbers only.
    pub(super) fn exposition(self) -> String {
        let metrics = [
            ("process_cpu_seconds_total", "counter", "User and system CPU time spent.", self.cpu_seconds),
            (
                "process_start_time_seconds",
                "gauge",
                "When the process started, since 1970.",
                self.start_time_seconds,
            ),
            ("process_resident_memory_bytes", "gauge", "Resident memory.", self.resident_bytes),
            ("process_virtual_memory_bytes", "gauge", "Virtual memory.", self.virtual_bytes),
            ("process_open_fds", "gauge", "Open file descriptors.", self.open_fds),
            ("process_max_fds", "gauge", "The most file descriptors that may be open.", self.max_fds),
        ];
        let mut text = String::new();
        for (name, kind, help, value) in metrics {
            let value = if value.is_infinite() { "+Inf".to_owned() } else { value.to_string() };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
        }
        text
    }
}

/// The fields of `/proc/self/stat` that are needed.
struct Stat {
    cpu_ticks: f64,
    start_ticks: f64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The second field is the program's name in parentheses, which may hold blanks and parentheses.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let ticks = |nth: usize| fields.get(nth)?.parse::<f64>().ok();
        // Counted from the third field: user time is the 14th, system time the 15th, the start the 22nd.
        Some(Self { cpu_ticks: ticks(11)? + ticks(12)?, start_ticks: ticks(19)? })
    }
}

/// The first number on the line that begins with this.
fn number_after(text: &str, name: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_are_skipped() {
        let fields = (3..=52).map(|nth| nth.to_string()).collect::<Vec<_>>().join(" ");
        let stat = Stat::parse(&format!("17 (a) b) {fields}\n")).unwrap();
        assert_eq!((stat.cpu_ticks, stat.start_ticks), (14.0 + 15.0, 22.0));
        assert!(Stat::parse("17 (a) S 1").is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_uses_memory_and_files() {
        let usage = ProcessUsage::now().unwrap();
        assert!(usage.resident_bytes > 0.0 && usage.virtual_bytes >= usage.resident_bytes);
        assert!(usage.open_fds > 0.0 && usage.max_fds >= usage.open_fds);
        assert!(usage.cpu_seconds >= 0.0 && usage.start_time_seconds > 1.0e9);
    }
}
