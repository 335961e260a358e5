#include "qm/metrics/metrics.hpp"

#include "qm/base/assert.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cctype>
#include <exception>
#include <map>
#include <mutex>

namespace qm::metrics {
namespace {

prometheus::Labels to_map(const Labels& labels) { return {labels.begin(), labels.end()}; }

/// An invalid name or a name used for two kinds is a programming error, found at the first start.
template <class Fn>
void* make(const std::string& name, Fn fn) {
  std::string problem;
  try {
    return fn();
  } catch (const std::exception& e) {
    problem = e.what();
  }
  QM_ASSERT(problem.empty(), "metric '{}' cannot be created: {}", name, problem);
  return nullptr;
}

bool is_name(const std::string& name) {
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == ':'; });
}

prometheus::MetricFamily to_prometheus(const Family& family) {
  QM_ASSERT(is_name(family.name), "metric '{}' cannot be created: the name is not valid", family.name);
  const bool counts = family.kind == Family::Kind::kCounter;
  prometheus::MetricFamily out;
  out.name = family.name;
  out.help = family.help;
  out.type = counts ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
  for (const auto& series : family.series) {
    prometheus::ClientMetric metric;
    for (const auto& [name, value] : series.labels) metric.label.push_back({name, value});
    (counts ? metric.counter.value : metric.gauge.value) = series.value;
    out.metric.push_back(std::move(metric));
  }
  return out;
}

}  // namespace

struct Registry::Impl {
  prometheus::Registry registry;
  std::mutex mutex;
  std::vector<std::function<void()>> hooks;
  std::vector<std::function<std::vector<Family>()>> collectors;
};

void Counter::add(double value) {
  if (impl_ != nullptr) static_cast<prometheus::Counter*>(impl_)->Increment(value);
}

void Gauge::set(double value) {
  if (impl_ != nullptr) static_cast<prometheus::Gauge*>(impl_)->Set(value);
}

void Histogram::observe(double value) {
  if (impl_ != nullptr) static_cast<prometheus::Histogram*>(impl_)->Observe(value);
}

Registry::Registry() : impl_(std::make_unique<Impl>()) {}
Registry::~Registry() = default;

Counter Registry::counter(const std::string& name, const std::string& help, const Labels& labels) {
  Counter handle;
  handle.impl_ = make(name, [&] {
    return &prometheus::BuildCounter().Name(name).Help(help).Register(impl_->registry).Add(to_map(labels));
  });
  return handle;
}

Gauge Registry::gauge(const std::string& name, const std::string& help, const Labels& labels) {
  Gauge handle;
  handle.impl_ = make(name, [&] {
    return &prometheus::BuildGauge().Name(name).Help(help).Register(impl_->registry).Add(to_map(labels));
  });
  return handle;
}

Histogram Registry::histogram(const std::string& name, const std::string& help, std::vector<double> bounds,
                              const Labels& labels) {
  Histogram handle;
  handle.impl_ = make(name, [&] {
    return &prometheus::BuildHistogram()
                .Name(name)
                .Help(help)
                .Register(impl_->registry)
                .Add(to_map(labels), std::move(bounds));
  });
  return handle;
}

void Registry::on_scrape(std::function<void()> fn) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->hooks.push_back(std::move(fn));
}

void Registry::on_collect(std::function<std::vector<Family>()> fn) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->collectors.push_back(std::move(fn));
}

std::string Registry::text() {
  const std::scoped_lock lock(impl_->mutex);
  for (const auto& hook : impl_->hooks) hook();
  auto families = impl_->registry.Collect();
  for (const auto& collect : impl_->collectors) {
    for (const auto& family : collect()) {
      if (!family.series.empty()) families.push_back(to_prometheus(family));
    }
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace qm::metrics
