#pragma once
#include "qm/admission/codec.hpp"
#include "qm/bus/bus.hpp"
#include "qm/service/host.hpp"
#include "qm/store/store.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace qm::admission::testing {

/// Starts an admission service with its own in-memory bus and store; null where that fails.
inline std::unique_ptr<service::Host> start_admission(const DomainClock& clock, service::Executor* executor = nullptr,
                                                      service::HostOptions options = {}, Options engine = {}) {
  static int n = 0;
  options.service = "admission";
  options.produces = {kTopic};
  auto bus = bus::make_bus("memory:admission-host-" + std::to_string(++n));
  if (!bus) return nullptr;
  auto host = std::make_unique<service::Host>(
      options, std::make_unique<AdmissionShell>(std::make_unique<Engine>(engine), Codec{}),
      store::open_memory(store::make_memory_disk()), *bus, clock, executor);
  const auto opened = host->open();
  EXPECT_TRUE(opened) << opened.error().to_string();
  if (!opened) return nullptr;
  host->start();
  return host;
}

}  // namespace qm::admission::testing
