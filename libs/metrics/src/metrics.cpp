#include "qm/metrics/metrics.hpp"

#include "qm/base/assert.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <exception>
#include <map>
#include <mutex>

namespace qm::metrics {
namespace {

prometheus::Labels to_map(const Labels& labels) { return {labels.begin(), labels.end()}; }

/// A wrong name or a name used for two kinds is a mistake in our code, found at the first start.
template <class Fn>
void* make(const std::string& name, Fn fn) {
  std::string problem;
  try {
    return fn();
  } catch (const std::exception& e) {
    problem = e.what();
  }
  QM_ASSERT(problem.empty(), "metric '{}' cannot be made: {}", name, problem);
  return nullptr;
}

}  // namespace

struct Registry::Impl {
  prometheus::Registry registry;
  std::mutex mutex;
  std::vector<std::function<void()>> hooks;
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
    return &prometheus::BuildCounter()
                .Name(name)
                .Help(help)
                .Register(impl_->registry)
                .Add(to_map(labels));
  });
  return handle;
}

Gauge Registry::gauge(const std::string& name, const std::string& help, const Labels& labels) {
  Gauge handle;
  handle.impl_ = make(name, [&] {
    return &prometheus::BuildGauge()
                .Name(name)
                .Help(help)
                .Register(impl_->registry)
                .Add(to_map(labels));
  });
  return handle;
}

Histogram Registry::histogram(const std::string& name, const std::string& help,
                              std::vector<double> bounds, const Labels& labels) {
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

std::string Registry::text() {
  const std::scoped_lock lock(impl_->mutex);
  for (const auto& hook : impl_->hooks)
    hook();
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace qm::metrics
