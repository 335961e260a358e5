#pragma once
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <string>

namespace qm::testing {

/// A test on a new, empty database of the private PostgreSQL. Skipped with the reason where no server is installed: a
/// fixture that overrides SetUp() returns if IsSkipped() afterwards.
class PostgresTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why_not;
    server_ = Postgres::shared(&why_not);
    if (server_ == nullptr) GTEST_SKIP() << why_not;
    conninfo_ = server_->fresh_database();
  }

  Postgres* server_ = nullptr;
  std::string conninfo_;
};

}  // namespace qm::testing
