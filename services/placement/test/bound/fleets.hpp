#pragma once
// Random problems and their exact solutions by other means: a search through all allocations, and GLPK.
#include "qm/placement/bound/bound.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#if __has_include(<glpk.h>)
#include <glpk.h>
#define QM_HAS_GLPK 1
#endif

namespace qm::placement::bound::testing {

class Random {
 public:
  explicit Random(std::uint64_t seed) : generator_(seed) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(generator_() % static_cast<std::uint64_t>(n)); }
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }

 private:
  std::mt19937_64 generator_;
};

struct GapQuery {
  std::vector<NodeGroup> nodes;
  std::vector<Wanted> wanted;
  [[nodiscard]] std::int64_t capacity() const {
    return std::accumulate(nodes.begin(), nodes.end(), std::int64_t{0},
                           [](auto sum, const auto& one) { return sum + one.node.free_milli() * one.count; });
  }
  [[nodiscard]] std::int64_t asked() const {
    return std::accumulate(wanted.begin(), wanted.end(), std::int64_t{0},
                           [](auto sum, const auto& one) { return sum + one.pod.total_milli() * one.most; });
  }
};

inline pack::NodeState node_of(std::int64_t cpu_milli, int gpus, std::uint8_t model = 0,
                               std::int64_t memory = std::int64_t{1} << 40) {
  pack::NodeState node;
  node.cpu_milli = cpu_milli;
  node.memory_bytes = memory;
  node.pods = 1'000;
  node.model = model;
  node.gpus = static_cast<std::uint8_t>(gpus);
  std::fill_n(node.free.begin(), node.gpus, std::uint16_t{pack::kDevice});
  return node;
}

struct Size {
  std::int64_t groups, each, most_gpus, classes, most;
};

inline GapQuery random_query(Random& random, const Size& size) {
  GapQuery out;
  for (auto n = random.between(1, size.groups); n > 0; --n) {
    auto node = node_of(random.between(1, 16) * 1'000, static_cast<int>(random.between(1, size.most_gpus)),
                        static_cast<std::uint8_t>(random.below(2)), random.between(4, 64) << 30);
    // A part of the last device is already in use.
    if (random.below(4) == 0) node.free[node.gpus - 1U] = static_cast<std::uint16_t>(10 * random.below(100));
    out.nodes.push_back({node, random.between(1, size.each)});
  }
  for (auto n = random.between(1, size.classes); n > 0; --n) {
    pack::PodClass pod;
    pod.cpu_milli = random.below(3) == 0 ? random.between(0, 8'000) : random.between(0, 8) * 1'000;
    pod.memory_bytes = random.between(0, 16) << 30;
    if (const auto kind = random.below(5); kind == 0) {
      pod.gpus = static_cast<std::int32_t>(random.between(1, 4));
    } else if (kind > 1) {
      pod.gpus = 1;
      pod.gpu_milli =
          static_cast<std::int32_t>(random.below(2) == 0 ? 10 * random.between(1, 100) : random.between(1, 1'000));
    }
    if (random.below(3) == 0) pod.models = static_cast<pack::Models>(random.between(1, 3));
    out.wanted.push_back({pod, random.between(1, size.most), 0});
  }
  return out;
}

/// The best allocation, found by trying each pod on each device of each node, and unplaced.
class Search {
 public:
  explicit Search(const GapQuery& question) {
    for (const auto& group : question.nodes)
      nodes_.insert(nodes_.end(), static_cast<std::size_t>(group.count), group.node);
    for (const auto& one : question.wanted) pods_.insert(pods_.end(), static_cast<std::size_t>(one.most), one.pod);
    left_.assign(pods_.size() + 1, 0);
    for (std::size_t i = pods_.size(); i-- > 0;) left_[i] = left_[i + 1] + pods_[i].total_milli();
  }
  std::int64_t best() {
    go(0, 0);
    return best_;
  }

 private:
  void go(std::size_t pod, std::int64_t sum) {
    best_ = std::max(best_, sum);
    if (sum + left_[pod] <= best_) return;
    const auto& own = pods_[pod];
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      if (!pack::fits(nodes_[n], own)) continue;
      const auto before = nodes_[n];
      std::uint16_t last = 0;
      for (std::size_t d = 0; d < before.gpus || d == 0; ++d) {
        if (own.shares() && (before.free[d] < own.gpu_milli || before.free[d] == last)) continue;
        if (!own.shares() && d > 0) break;
        last = before.free[d];
        nodes_[n] = pack::with(before, own, before.free[d]);
        go(pod + 1, sum + own.total_milli());
      }
      nodes_[n] = before;
    }
    go(pod + 1, sum);
  }

  std::vector<pack::NodeState> nodes_;
  std::vector<pack::PodClass> pods_;
  std::vector<std::int64_t> left_;
  std::int64_t best_ = 0;
};

#ifdef QM_HAS_GLPK
/// The same as an integer program; -1 if GLPK gave up.
inline std::int64_t optimum(const GapQuery& question, int most_ms) {
  glp_prob* program = glp_create_prob();
  glp_term_out(GLP_OFF);
  glp_set_obj_dir(program, GLP_MAX);
  std::vector<int> i{0}, j{0};
  std::vector<double> value{0};
  const auto row = [&](double low, double high) {
    const int number = glp_add_rows(program, 1);
    glp_set_row_bnds(program, number, low == high ? GLP_FX : low > 0 ? GLP_DB : GLP_UP, low, high);
    return number;
  };
  const auto entry = [&](int at, int column, double factor) {
    i.push_back(at), j.push_back(column), value.push_back(factor);
  };
  const auto column = [&](double worth) {
    const int number = glp_add_cols(program, 1);
    glp_set_obj_coef(program, number, worth);
    glp_set_col_kind(program, number, GLP_IV);
    glp_set_col_bnds(program, number, GLP_LO, 0, 0);
    return number;
  };
  std::vector<int> asked;
  for (const auto& one : question.wanted) {
    asked.push_back(row(static_cast<double>(one.least), static_cast<double>(one.most)));
  }
  for (const auto& group : question.nodes) {
    for (std::int64_t n = 0; n < group.count; ++n) {
      const int cpu = row(0, static_cast<double>(group.node.cpu_milli));
      const int memory = row(0, static_cast<double>(group.node.memory_bytes >> 20));
      const int idle = row(0, group.node.idle());
      std::vector<int> device;
      for (std::size_t d = 0; d < group.node.gpus; ++d) {
        device.push_back(row(0, group.node.free[d]));
        if (group.node.free[d] != pack::kDevice) continue;
        const int shared = column(0);  // 1 if the device is shared: then no pod has it as a whole
        entry(idle, shared, 1);
        entry(device.back(), shared, -pack::kDevice);
        glp_set_row_bnds(program, device.back(), GLP_UP, 0, 0);
        glp_set_col_bnds(program, shared, GLP_DB, 0, 1);
      }
      for (std::size_t c = 0; c < question.wanted.size(); ++c) {
        const auto& pod = question.wanted[c].pod;
        auto alone = group.node;
        if (!pack::fits(alone, pod)) continue;
        const auto put = [&](int own) {
          entry(asked[c], own, 1);
          entry(cpu, own, static_cast<double>(pod.cpu_milli));
          entry(memory, own, static_cast<double>(pod.memory_bytes >> 20));
        };
        if (!pod.shares()) {
          const int own = column(pod.gpus == 0 ? 0 : static_cast<double>(pod.total_milli()));
          put(own);
          if (pod.gpus > 0) entry(idle, own, pod.gpus);
          continue;
        }
        for (std::size_t d = 0; d < group.node.gpus; ++d) {
          const int own = column(pod.gpu_milli);
          put(own);
          entry(device[d], own, pod.gpu_milli);
        }
      }
    }
  }
  glp_load_matrix(program, static_cast<int>(i.size()) - 1, i.data(), j.data(), value.data());
  glp_iocp how;
  glp_init_iocp(&how);
  how.presolve = GLP_ON;
  how.msg_lev = GLP_MSG_OFF;
  how.tm_lim = most_ms;
  const bool solved = glp_intopt(program, &how) == 0 && glp_mip_status(program) == GLP_OPT;
  const auto best = solved ? static_cast<std::int64_t>(glp_mip_obj_val(program) + 0.5) : -1;
  glp_delete_prob(program);
  return best;
}
#endif

}  // namespace qm::placement::bound::testing
