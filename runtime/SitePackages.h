//===- SitePackages.h - Finding Python's package folders ----------------------===//
//
// NVRTC and nvdisasm may be installed as Python packages of NVIDIA; Triton's package contains nvdisasm too.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <string>
#include <vector>

namespace attune {

/// The paths that match a glob pattern, in descending order, so that newer versions come first.
std::vector<std::string> matchingPaths(const std::string &pattern);

/// The folders of Python packages that are there: the one that holds attune's own package, where this library is part
/// of it, those of $VIRTUAL_ENV, of the user (pip install --user), and of the system.
std::vector<std::string> sitePackages();

} // namespace attune
