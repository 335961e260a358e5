#include "qm/admission/forecast/run_times.hpp"

#include <algorithm>

namespace qm::admission::forecast {
namespace {

/// Unit of the tables of declared run times: a lifetime is stored scaled so that the declared time is this long.
constexpr Duration kPromise = std::chrono::seconds(1000);

/// A class with at least this total weight of observed lifetimes counts as evidence, so that one observation still
/// counts while it fades.
constexpr double kSeen = 0.5;

bool is_hash(std::string_view word) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto hex = [&](char c) { return digit(c) || (c >= 'a' && c <= 'f'); };
  return std::ranges::all_of(word, digit) ||
         (word.size() >= 5 && std::ranges::all_of(word, hex) && std::ranges::any_of(word, digit));
}

}  // namespace

std::string name_stem(std::string_view name) {
  for (auto cut = name.find_last_of("-_."); cut != std::string_view::npos; cut = name.find_last_of("-_.")) {
    if (!is_hash(name.substr(cut + 1))) break;
    name = name.substr(0, cut);
  }
  while (!name.empty() && name.back() >= '0' && name.back() <= '9') name.remove_suffix(1);
  return std::string(name);
}

RunTimes::RunTimes(Settings settings)
    : settings_(settings), prior_(log_logistic(settings.prior_median, 1)), promise_prior_(log_logistic(kPromise, 2)) {}

std::vector<JobClass> RunTimes::chain_of(const JobClass& job_class) {
  std::vector<JobClass> out{JobClass{}};
  for (const auto& wide :
       {JobClass{"", job_class.shape, ""}, JobClass{job_class.team, job_class.shape, ""}, job_class}) {
    if (wide != out.back()) out.push_back(wide);
  }
  return out;
}

JobClass RunTimes::promises_of(const JobClass& job_class) { return {job_class.team, JobClass::kPromises, ""}; }

std::optional<JobClass> RunTimes::wider(const JobClass& job_class) {
  if (job_class == promises_of(job_class)) return {};
  const auto chain = chain_of(job_class);
  if (chain.size() < 2) return {};
  return chain[chain.size() - 2];
}

void RunTimes::restore(const JobClass& job_class, const LifeTable& table) {
  const auto to = job_class == promises_of(job_class) ? std::vector{job_class} : chain_of(job_class);
  for (const auto& wide : to) kind(wide, table.at()).table.add(table);
}

RunTimes::Evidence RunTimes::evidence(const JobClass& job_class, const Declared& declared, Instant now) const {
  const auto lives_of = [&](const JobClass& one) {
    const auto found = kinds_.find(one);
    return found == kinds_.end() ? 0 : found->second.table.weight(now);
  };
  if (declared.expected && *declared.expected > Duration::zero()) {
    const auto promises = promises_of(job_class);
    return {promises, lives_of(promises)};
  }
  const auto chain = chain_of(job_class);
  for (auto one = chain.rbegin(); one != chain.rend(); ++one) {
    if (const double lives = lives_of(*one); lives >= kSeen) return {*one, lives};
  }
  return {JobClass{}, 0};
}

RunTimes::Kind& RunTimes::kind(const JobClass& job_class, Instant now) {
  auto found = kinds_.find(job_class);
  if (found == kinds_.end()) {
    if (kinds_.size() >= settings_.kinds) {
      kinds_.erase(std::ranges::min_element(kinds_, {}, [](const auto& one) { return one.second.used; }));
    }
    found = kinds_.emplace(job_class, Kind{LifeTable(settings_.half_life), {}, {}, {}}).first;
  }
  found->second.used = now;
  return found->second;
}

void RunTimes::started(Id id, const JobClass& job_class, const Declared& declared, Instant now) {
  ended(id, LifeTable::End::kCutOff, now);
  for (const auto& wide : chain_of(job_class)) {
    auto& running = kind(wide, now).running;
    running.insert(now);
    if (running.size() > settings_.running) running.erase(running.begin());
  }
  running_.emplace(id, Run{job_class, declared, now});
}

void RunTimes::ended(Id id, LifeTable::End how, Instant now) {
  const auto found = running_.find(id);
  if (found == running_.end()) return;
  const auto [job_class, declared, began] = std::move(found->second);
  running_.erase(found);
  for (const auto& wide : chain_of(job_class)) {
    auto& living = kind(wide, now).running;
    if (const auto one = living.find(began); one != living.end()) living.erase(one);
  }
  for (const auto& [of, lived] : lessons(job_class, declared, now - began)) {
    const auto to = of == promises_of(job_class) ? std::vector{of} : chain_of(of);
    for (const auto& wide : to) kind(wide, now).table.add(lived, how, now);
  }
}

std::vector<RunTimes::Lesson> RunTimes::lessons(const JobClass& job_class, const Declared& declared, Duration ran) {
  ran = std::max(Duration::zero(), ran);
  std::vector<Lesson> out{{job_class, ran}};
  if (!declared.expected || *declared.expected <= Duration::zero()) return out;
  const double share = seconds(ran) / seconds(*declared.expected);
  const double most = 1e12;
  out.push_back({promises_of(job_class),
                 Duration(static_cast<std::int64_t>(std::min(most, share * static_cast<double>(kPromise.count()))))});
  return out;
}

Lifetime::Hazards RunTimes::learned(const JobClass& job_class, const Lifetime::Hazards& wider, Instant now) {
  auto& of = kind(job_class, now);
  if (of.answer && now - of.answer->first < settings_.fresh) return of.answer->second;
  const auto out = of.table.with_living(of.running, now).hazards(wider, settings_.leaning, now);
  of.answer.emplace(now, out);
  return out;
}

Lifetime RunTimes::of(const JobClass& job_class, const Declared& declared, Instant now) {
  const auto limit = declared.deadline.value_or(Duration::max());
  if (declared.expected && *declared.expected > Duration::zero()) {
    const auto kept = learned(promises_of(job_class), promise_prior_, now);
    return Lifetime(kept).stretched(seconds(*declared.expected) / seconds(kPromise)).limited(limit);
  }
  auto hazards = prior_;
  for (const auto& wide : chain_of(job_class)) hazards = learned(wide, hazards, now);
  return Lifetime(hazards).limited(limit);
}

}  // namespace qm::admission::forecast
