//! Process metrics from the operating system, under the names that Prometheus client libraries use
//! (<https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics>).
//!
//! They are read from `/proc`. On systems without it, these metrics are absent.

use std::fmt::Write;
use std::fs;

/// Ticks per second of the times in `/proc/self/stat`: `USER_HZ`, which is 100 on every
/// architecture Linux runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Appends the process metrics to `text`.
pub(super) fn append(text: &mut String) {
    if let Some(stat) = fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(Stat::parse)
    {
        let (cpu, threads) = (stat.cpu_seconds, stat.threads);
        family(text, "process_cpu_seconds_total", "counter", "CPU time used.", cpu);
        family(text, "process_threads", "gauge", "Threads of the process.", threads);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(resident) = kibibytes(&status, "VmRSS:") {
        let name = "process_resident_memory_bytes";
        family(text, name, "gauge", "Memory in use.", resident * 1024.0);
    }
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        // One of the entries is the descriptor of the directory that is being read.
        let open = u32::try_from(files.count().saturating_sub(1)).unwrap_or(u32::MAX);
        family(text, "process_open_fds", "gauge", "Open file descriptors.", f64::from(open));
    }
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    if let Some(max) = soft_limit(&limits, "Max open files") {
        family(text, "process_max_fds", "gauge", "File descriptors that may be open.", max);
    }
}

fn family(text: &mut String, name: &str, kind: &str, help: &str, value: f64) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
}

/// The fields of `/proc/self/stat` that are used.
struct Stat {
    cpu_seconds: f64,
    threads: f64,
}

impl Stat {
    fn parse(line: &str) -> Option<Self> {
        // The program name, in parentheses, may contain spaces and parentheses. The fields are
        // therefore counted from the last closing parenthesis.
        let (_, rest) = line.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<f64>().ok();
        let cpu_seconds = (number(14)? + number(15)?) / TICKS_PER_SECOND;
        Some(Self { cpu_seconds, threads: number(20)? })
    }
}

fn kibibytes(status: &str, name: &str) -> Option<f64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().strip_suffix(" kB")?.parse().ok()
}

fn soft_limit(limits: &str, name: &str) -> Option<f64> {
    let values = limits.lines().find_map(|line| line.strip_prefix(name))?;
    values.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_fields_behind_a_hostile_program_name() {
        let line = "7 (a) b) S 1 7 7 0 -1 4 5 6 7 8 250 150 0 0 20 0 12 0 99 1000 200";
        let stat = Stat::parse(line).expect("parsed");
        assert!((stat.cpu_seconds - 4.0).abs() < 1e-9);
        assert!((stat.threads - 12.0).abs() < 1e-9);
        assert_eq!(kibibytes("VmHWM:\t 9 kB\nVmRSS:\t    2048 kB\n", "VmRSS:"), Some(2048.0));
        let limits = "Max open files            1024       4096       files\n";
        assert_eq!(soft_limit(limits, "Max open files"), Some(1024.0));
        assert_eq!(soft_limit(&limits.replace("1024", "unlimited"), "Max open files"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_all_of_them() {
        let mut text = String::new();
        append(&mut text);
        for name in ["cpu_seconds_total", "threads", "resident_memory_bytes", "open_fds"] {
            assert!(text.contains(&format!("\nprocess_{name} ")), "{name} in {text}");
        }
    }
}
