// The reference tables of MIG partitions, and the capacity that they leave.
#include "qm/placement/mig/geometry.hpp"

#include "qm/testing/testing.hpp"
#include "test/mig/layouts.hpp"
#include "test/mig/reference.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::placement::mig::testing {
namespace geometry_test {

const Model& model(std::string_view product) {
  const Model* found = model_of(product);
  EXPECT_NE(found, nullptr) << product;
  return found == nullptr ? models()[0] : *found;
}

/// Checks that the columns gpu, profile, instances_per_gpu, memory_gb and the values reported by
/// nvidia-smi match the product's tables.
void expect_reference(const std::string& file, std::size_t rows_in_it) {
  for (const auto& folder : qm::testing::data_folders("tables")) {
    SCOPED_TRACE(folder);
    const auto rows = read_reference(folder + "/" + file);
    ASSERT_EQ(rows.size(), rows_in_it);
    for (const ReferenceRow& row : rows) {
      const Model& of = model(row.gpu);
      const auto profile = profile_of(of, row.profile);
      ASSERT_TRUE(profile) << row.gpu << " " << row.profile;
      EXPECT_EQ(geometry_of(of.family).profiles[*profile].most, row.instances) << row.profile;
      EXPECT_EQ(of.profiles[*profile].memory_gb, row.memory_gb) << row.profile;
      EXPECT_EQ(of.profiles[*profile].sms, row.sms) << row.profile;
    }
  }
}
/// S-121
TEST(MigReference, TheTableOfTheH100) { expect_reference("mig-profiles-h100.csv", 4); }
/// S-122
TEST(MigReference, TheTableOfTheA100) { expect_reference("mig-profiles-a100.csv", 5); }

/// S-122: 3g and 4g fit together on one A100, two 4g do not.
TEST(MigReference, ThreeAndFourShareAnA100) {
  const Model& a100 = model("NVIDIA-A100-SXM4-80GB");
  const StateTable& table = StateTable::of(a100.family);
  const auto three = profile_of(a100, "3g.40gb"), four = profile_of(a100, "4g.40gb");
  ASSERT_TRUE(three && four);
  const StateId one = table.place(StateTable::empty(), table.spots_of(*four)[0]);
  ASSERT_NE(one, kNoState);
  EXPECT_TRUE(table.fits(one, *three));
  EXPECT_FALSE(table.fits(one, *four));
}

}  // namespace geometry_test
}  // namespace qm::placement::mig::testing
