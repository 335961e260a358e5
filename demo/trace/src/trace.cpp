#include "qm/trace/trace.hpp"

#include <algorithm>
#include <charconv>
#include <map>

namespace qm::trace {
namespace {

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (;;) {
    const auto comma = line.find(',');
    cells.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

Result<std::int64_t> whole_number(std::string_view cell, const char* column, const std::string& file, int line) {
  std::int64_t value = 0;
  // Some traces write seconds as "12.0"; the fraction is below our resolution.
  const std::string_view whole = cell.substr(0, cell.find('.'));
  const auto [end, error] = std::from_chars(whole.data(), whole.data() + whole.size(), value);
  if (error != std::errc{} || end != whole.data() + whole.size() || value < 0) {
    return fail(Error{Code::kInvalid, fmt::format("{}:{}: \"{}\" is not a whole number from 0 up", file, line, cell),
                      column, "write seconds or a count"});
  }
  return value;
}

}  // namespace

Result<std::vector<Job>> read_csv(std::string_view text, const std::string& file) {
  std::vector<Job> jobs;
  std::map<std::string, std::size_t, std::less<>> column;
  int number = 0;
  while (!text.empty()) {
    const auto eol = text.find('\n');
    std::string_view line = text.substr(0, eol);
    text.remove_prefix(eol == std::string_view::npos ? text.size() : eol + 1);
    ++number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty()) continue;
    const auto cells = cells_of(line);
    if (column.empty()) {
      for (std::size_t i = 0; i < cells.size(); ++i) column.emplace(cells[i], i);
      for (const char* name : {"submit_s", "duration_s", "num_gpus", "vc"}) {
        if (!column.contains(name)) {
          return fail(Error{Code::kInvalid, fmt::format("{}:{}: the header has no column {}", file, number, name), name,
                            "the first line must name submit_s, duration_s, num_gpus and vc"});
        }
      }
      continue;
    }
    if (cells.size() < column.size()) {
      return fail(Error{Code::kInvalid,
                        fmt::format("{}:{}: {} of {} columns", file, number, cells.size(), column.size()),
                        {},
                        "every line has as many columns as the header"});
    }
    Job job;
    QM_ASSIGN(job.submit_s, whole_number(cells[column["submit_s"]], "submit_s", file, number));
    QM_ASSIGN(job.duration_s, whole_number(cells[column["duration_s"]], "duration_s", file, number));
    QM_ASSIGN(const std::int64_t gpus, whole_number(cells[column["num_gpus"]], "num_gpus", file, number));
    if (gpus < 1 || gpus > 100'000) {
      return fail(Error{Code::kInvalid, fmt::format("{}:{}: {} GPUs", file, number, gpus), "num_gpus", "1 to 100000"});
    }
    job.gpus = static_cast<std::int32_t>(gpus);
    job.team = cells[column["vc"]];
    jobs.push_back(std::move(job));
  }
  if (jobs.empty())
    return fail(Error{Code::kInvalid, fmt::format("{} has no job", file), {}, "give a CSV with a header and jobs"});
  std::stable_sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.submit_s < b.submit_s; });
  return jobs;
}

std::int64_t Window::running_gpus() const {
  std::int64_t sum = 0;
  for (const auto& job : running) sum += job.gpus;
  return sum;
}

Window window_of(const std::vector<Job>& jobs, std::int64_t from_s, std::int64_t until_s) {
  Window w{from_s, until_s, {}, {}};
  for (const auto& job : jobs) {
    if (job.submit_s >= until_s) break;
    if (job.submit_s >= from_s) {
      w.arriving.push_back(job);
    } else if (job.submit_s + job.duration_s > from_s) {
      Job rest = job;
      rest.duration_s = job.submit_s + job.duration_s - from_s;
      rest.submit_s = from_s;
      w.running.push_back(std::move(rest));
    }
  }
  return w;
}

Window busiest(const std::vector<Job>& jobs, int hours, std::int32_t gpus_per_node) {
  const std::int64_t step = hours * 3600LL;
  struct Count {
    std::size_t jobs = 0, gangs = 0;
  };
  std::map<std::int64_t, Count> windows;
  std::size_t fullest = 0;
  for (const auto& job : jobs) {
    auto& c = windows[job.submit_s / step];
    ++c.jobs;
    if (job.gpus > gpus_per_node) ++c.gangs;
    fullest = std::max(fullest, c.jobs);
  }
  std::int64_t best = 0;
  Count best_count;
  for (const auto& [k, c] : windows) {
    if (c.jobs * 3 < fullest) continue;
    if (std::pair(c.gangs, c.jobs) > std::pair(best_count.gangs, best_count.jobs)) {
      best = k;
      best_count = c;
    }
  }
  return window_of(jobs, best * step, (best + 1) * step);
}

Window thinned(const Window& window, std::size_t jobs, std::int64_t running_gpus) {
  Window out{window.from_s, window.until_s, {}, {}};
  const std::size_t n = window.arriving.size();
  for (std::size_t i = 0; i < n; ++i) {
    // Job i is kept if the rounded quota of kept jobs increases: evenly, and `jobs` in all.
    if (jobs >= n || (i + 1) * jobs / n > i * jobs / n) out.arriving.push_back(window.arriving[i]);
  }
  const std::int64_t all = window.running_gpus();
  std::int64_t before = 0, kept = 0;
  for (const auto& job : window.running) {
    before += job.gpus;
    const std::int64_t quota = all <= running_gpus ? before : before * running_gpus / all;
    if (kept + job.gpus <= quota) {
      out.running.push_back(job);
      kept += job.gpus;
    }
  }
  return out;
}

}  // namespace qm::trace
