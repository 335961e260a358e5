#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace qm::metrics {

using Labels = std::vector<std::pair<std::string, std::string>>;

/// Cheap handles; updates are lock-free or take a short lock, from any thread. Handles live as long as the registry.
class Counter {
 public:
  void add(double value = 1);

 private:
  friend class Registry;
  void* impl_ = nullptr;
};
class Gauge {
 public:
  void set(double value);

 private:
  friend class Registry;
  void* impl_ = nullptr;
};
class Histogram {
 public:
  void observe(double value);

 private:
  friend class Registry;
  void* impl_ = nullptr;
};

/// A metric that is generated at each scrape: for series whose objects appear and disappear.
struct Family {
  enum class Kind { kGauge, kCounter };
  struct Series {
    Labels labels;
    double value = 0;
  };
  std::string name, help;
  Kind kind = Kind::kGauge;
  std::vector<Series> series;  ///< none = the family is omitted
};

/// The metrics of one process, written as Prometheus text.
class Registry {
 public:
  Registry();
  ~Registry();
  Counter counter(const std::string& name, const std::string& help, const Labels& labels = {});
  Gauge gauge(const std::string& name, const std::string& help, const Labels& labels = {});
  Histogram histogram(const std::string& name, const std::string& help, std::vector<double> bounds,
                      const Labels& labels = {});
  /// Runs before each scrape, to set gauges from a snapshot.
  void on_scrape(std::function<void()> fn);
  /// Runs at each scrape; its result replaces its previous result in the text. The metric names must be unique to
  /// it.
  void on_collect(std::function<std::vector<Family>()> fn);
  [[nodiscard]] std::string text();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::metrics
