#pragma once
#include "qm/store/store.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>

namespace qm::store {

/// A durable location: every call opens another Store on it. Null with the reason if the environment has none.
using Open = std::function<std::unique_ptr<Store>()>;
struct Place {
  const char* name;
  Open (*make)(std::string* why_not);
  friend std::ostream& operator<<(std::ostream& out, const Place& place) { return out << place.name; }
};

/// The requirements for all carriers of Store; the cases are in store_contract_body.hpp.
class StoreContract : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    std::string why_not;
    open_ = GetParam().make(&why_not);
    if (!open_) GTEST_SKIP() << why_not;
    store_ = open_();
    ASSERT_TRUE(store_);
    loaded_ = lead(*store_);
  }

  static Loaded lead(Store& store) {
    auto loaded = store.acquire("test");
    EXPECT_TRUE(loaded.has_value()) << loaded.error().to_string();
    return loaded ? *loaded : Loaded{};
  }
  static CommitOutcome write(Store& store, const Commit& batch) {
    auto outcome = store.commit(batch);
    EXPECT_TRUE(outcome.has_value()) << outcome.error().to_string();
    return outcome.value_or(CommitOutcome::kNotCommitted);
  }
  /// Returns what a new leader loads.
  Loaded reload() {
    store_ = open_();
    return lead(*store_);
  }

  Open open_;
  std::unique_ptr<Store> store_;
  Loaded loaded_;
};

}  // namespace qm::store
