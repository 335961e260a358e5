// Busy hours of the Philly trace as a model: a quantile table per gang size, drawn by inverse transform with linear
// interpolation between the logarithms of neighboring quantiles; shares of the largest virtual clusters under
// invented names.
#include "qm/trace/trace.hpp"

#include <algorithm>
#include <cmath>
#include <random>

namespace qm::trace {
namespace {

constexpr double kAt[9] = {0, 0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99};

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  // 53 bits of the generator: the same on every platform, which std distributions do not guarantee.
  double unit() { return static_cast<double>(random_() >> 11) * 0x1.0p-53; }

  const Quantiles& size() {
    double u = unit();
    for (const auto& q : model_sizes()) {
      if ((u -= q.weight) < 0) return q;
    }
    return model_sizes().front();
  }
  std::int64_t run_time(const Quantiles& q) {
    const double u = unit();
    std::size_t k = 8;
    while (u < kAt[k]) --k;
    const double low = static_cast<double>(std::max<std::int64_t>(1, q.at[k]));
    const double high = static_cast<double>(k == 8 ? q.max : std::max<std::int64_t>(1, q.at[k + 1]));
    const double part = (u - kAt[k]) / ((k == 8 ? 1.0 : kAt[k + 1]) - kAt[k]);
    return std::max<std::int64_t>(1, std::llround(low * std::pow(high / low, part)));
  }
  std::string team() {
    double u = unit();
    for (const auto& s : model_teams()) {
      if ((u -= s.weight) < 0) return s.team;
    }
    return model_teams().front().team;
  }
  Job job(std::int64_t at) {
    const Quantiles& q = size();
    return {at, run_time(q), q.gpus, team()};
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace

const std::vector<Quantiles>& model_sizes() {
  static const std::vector<Quantiles> sizes = {
      {1, 0.93167, {1, 52, 62, 122, 1117, 2716, 8512, 19137, 135404}, 3256045},
      {2, 0.02210, {2, 9, 11, 16, 21, 76, 73625, 197392, 526030}, 2582803},
      {4, 0.02274, {3, 75, 138, 772, 17431, 89422, 184519, 274339, 908661}, 2750674},
      {8, 0.01998, {1, 125, 216, 1871, 23683, 173288, 352409, 525631, 1066894}, 4628226},
      {16, 0.00242, {2, 36, 51, 380, 52548, 167367, 341346, 511238, 1369876}, 1710643},
      {32, 0.00081, {2, 345, 812, 1182, 14262, 53301, 64338, 78004, 128924}, 128924}};
  return sizes;
}

const std::vector<Share>& model_teams() {
  static const std::vector<Share> teams = {{"language", 0.5012}, {"vision", 0.1956},  {"speech", 0.1210},
                                           {"ranking", 0.0903},  {"search", 0.0235},  {"ads", 0.0184},
                                           {"robotics", 0.0174}, {"biology", 0.0138}, {"research", 0.0188}};
  return teams;
}

Window draw(const ModelOptions& options) {
  Draw random(options.seed);
  const std::int64_t length = options.hours * 3600LL;
  Window w{0, length, {}, {}};
  // A job found running at a random instant is a long one: select among many candidates by length, then cut it at any
  // point.
  std::int64_t running = 0;
  while (running < options.running_gpus) {
    std::vector<Job> candidates;
    double total = 0;
    for (int i = 0; i < 48; ++i) {
      candidates.push_back(random.job(0));
      total += static_cast<double>(candidates.back().duration_s);
    }
    double u = random.unit() * total;
    for (auto& job : candidates) {
      if ((u -= static_cast<double>(job.duration_s)) >= 0) continue;
      job.duration_s = std::max<std::int64_t>(60, std::llround(random.unit() * static_cast<double>(job.duration_s)));
      if (job.gpus <= options.running_gpus - running) {
        running += job.gpus;
        w.running.push_back(job);
      }
      break;
    }
  }
  double at = 0;
  for (;;) {
    at += -std::log(1 - random.unit()) * 3600 / options.jobs_per_hour;
    if (at >= static_cast<double>(length)) break;
    w.arriving.push_back(random.job(static_cast<std::int64_t>(at)));
  }
  return w;
}

}  // namespace qm::trace
