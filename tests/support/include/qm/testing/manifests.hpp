#pragma once
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace qm::testing {

/// A folder of manifests, for tests that cover our own manifests and the reference ones. Such a test loops over
/// manifest_folders(), or its suite has one as the parameter. The files of the two differ, and so do the expectations.
struct Manifests {
  std::string dir;  ///< with a slash at its end
  bool own = true;

  [[nodiscard]] std::string name() const { return own ? "own" : "reference"; }
  /// The first argument in our own folder, the second in the reference one.
  template <class T>
  [[nodiscard]] T pick(T of_own, T of_reference) const {
    return own ? std::move(of_own) : std::move(of_reference);
  }
  [[nodiscard]] std::string pick(const char* of_own, const char* of_reference) const {
    return own ? of_own : of_reference;
  }
};

/// Our own folder, which always exists, and the reference one if present.
inline std::vector<Manifests> manifest_folders() {
  std::vector<Manifests> out;
  for (const std::string& dir : data_folders("manifests")) out.push_back({dir + "/", dir.starts_with(data_dir())});
  return out;
}

inline void PrintTo(const Manifests& manifests, std::ostream* out) { *out << manifests.name(); }

}  // namespace qm::testing

/// Runs a suite of TEST_P over each of the folders.
#define QM_FOR_EACH_MANIFESTS(Suite)                                                                 \
  INSTANTIATE_TEST_SUITE_P(Manifests, Suite, ::testing::ValuesIn(::qm::testing::manifest_folders()), \
                           [](const auto& folder) { return folder.param.name(); })
