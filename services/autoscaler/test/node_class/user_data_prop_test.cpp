// User data of any text is merged or refused, and a merge of the result changes nothing.
#include "account.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace qm::autoscaler {
namespace user_data_prop_test {

using namespace autoscaler::testing;

/// Lines of TOML, whole and broken, in any order.
std::string any_toml() {
  static const std::vector<std::string> kLines{"[settings.kubernetes]",
                                               "[settings.kubernetes.node-labels]",
                                               "[settings.ntp]",
                                               "[[x]]",
                                               "[",
                                               "a = 1",
                                               "b = [",
                                               "]",
                                               "c = \"x\"",
                                               "'d' = '''",
                                               "'''",
                                               "# e",
                                               "",
                                               "max-pods = 3",
                                               "api-server = 'other'",
                                               "f.g = 1",
                                               "=",
                                               "\"a",
                                               "h = {i = 1}",
                                               "\r"};
  std::string out;
  for (int i = 0, n = *rc::gen::inRange(0, 12); i < n; ++i)
    out += kLines[static_cast<std::size_t>(*rc::gen::inRange<int>(0, static_cast<int>(kLines.size())))] + "\n";
  return out;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

RC_GTEST_PROP(UserDataProp, OfBottlerocketIsMergedOnceOrRefused, ()) {
  auto node_class = class_of("bottlerocket@latest", "Bottlerocket");
  node_class.user_data = any_toml();
  const auto merged = user_data(node_class, cluster_of_tests(), {});
  if (!merged) {
    RC_ASSERT(merged.error().field == "spec.userData");
    RC_ASSERT(merged.error().message.starts_with("line "));
    return;
  }
  RC_ASSERT(count(*merged, "api-server = \"https://api.ml\"\n") == 1U);
  // The text of the header may also be in values of several lines. A second table would be refused below.
  const std::string header = "[settings.kubernetes]\n";
  const auto before = count(node_class.user_data, header), after = count(*merged, header);
  RC_ASSERT(after == std::max<std::size_t>(before, 1) || after == before + 1);
  node_class.user_data = *merged;
  const auto again = user_data(node_class, cluster_of_tests(), {});
  RC_ASSERT(again.has_value());
  RC_ASSERT(*again == *merged);
}

RC_GTEST_PROP(UserDataProp, OfAl2023EndsWithOurNodeConfigOrIsRefused, (std::string text)) {
  auto node_class = class_of();
  const std::vector<std::string> starts{"#!/bin/sh\n", "MIME-Version: 1.0\n", "kind: NodeConfig\n"};
  node_class.user_data = *rc::gen::elementOf(starts) + text;
  const auto merged = user_data(node_class, cluster_of_tests(), {});
  if (!merged) {
    RC_ASSERT(merged.error().field == "spec.userData");
    return;
  }
  RC_ASSERT(merged->find("apiServerEndpoint: \"https://api.ml\"") != std::string::npos);
  RC_ASSERT(merged->ends_with("--\n"));
}

}  // namespace user_data_prop_test
}  // namespace qm::autoscaler
