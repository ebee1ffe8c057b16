// Kernel names as tools print them: one kernel has many.
#pragma once

#include <string>
#include <string_view>

namespace corun {

/// The function's own name: without return type, namespaces, template arguments and parameters, also of a
/// mangled name ("_ZN2at6native4reluIfEEvT_": relu).  Never empty where `name` is not.
std::string function_name(std::string_view name);

/// Without what tells kernels of one function and shape apart, as importers number them: "gemm" of "gemm #2".
std::string without_number(const std::string& name);

/// Whether they may be names of one function: the same, or one cut short, after 8 characters at least.
bool may_be_one_function(std::string_view a, std::string_view b);

}  // namespace corun
