#pragma once
#include "rules.hpp"

namespace qm::tidy {

/// A function of a public header: a free function, or a public member function that overrides no other.
struct Declaration {
  std::string name;
  std::size_t line = 0;  ///< from 1
};
/// The functions that a header declares, by a scan of its tokens. Constructors, destructors, operators, friends and
/// names in capitals are left out.
std::vector<Declaration> declarations(const SourceFile& header);

/// A declaration that may be without a production caller.
struct Uncalled {
  std::string_view header;           ///< path
  std::set<std::string_view> names;  ///< empty = the whole header
  std::string_view reason;
};
const std::vector<Uncalled>& known_uncalled();

/// Findings for each function of a public header (services/*/include, libs/*/include) that only tests, benchmarks and
/// replay programs call, for each public header that production includes in its own source alone, and for each entry of
/// `known` that nothing needs.
///
/// Production is libs, services, agent, cli, fleet and demo, without tests and without programs that replay recorded
/// decisions. A call is the name as a token of production code outside of comments, texts, its declarations and the
/// bodies of its definitions. Names are not resolved: a function with the name of a called one is not found.
std::vector<Finding> uncalled(const std::vector<SourceFile>& files, const std::vector<Uncalled>& known);

}  // namespace qm::tidy
