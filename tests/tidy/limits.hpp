#pragma once
#include "rules.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace qm::tidy {

inline constexpr std::size_t kMostMethods = 60;       ///< of a class
inline constexpr std::size_t kMostHeaderLines = 250;  ///< of a header that defines a class
inline constexpr std::size_t kMostFiles = 25;         ///< headers and sources in one folder

/// A class or struct with the number of its member functions, of any access; each overload counts. Constructors,
/// destructors, operators, friends and the members of nested classes do not count.
struct ClassSize {
  std::string name;
  std::size_t methods = 0;
  std::size_t line = 0;  ///< from 1, of its name
};
/// The classes that a file defines, by a scan of its tokens. Bodies of functions are skipped.
std::vector<ClassSize> class_sizes(const SourceFile& file);

/// What may exceed a limit for now.
struct LimitException {
  std::string_view place;  ///< a header, a folder without its last slash, or "header Class"
  std::string_view reason;
};
const std::vector<LimitException>& limit_exceptions();

/// Findings for each class, header and folder of a service beyond a limit, and for each entry of `known` that nothing
/// needs. Tests are not counted: each file of theirs stands alone.
std::vector<Finding> beyond_limits(const std::vector<SourceFile>& files, const std::vector<LimitException>& known);

}  // namespace qm::tidy
