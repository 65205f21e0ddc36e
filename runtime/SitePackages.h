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

/// The existing folders of Python packages, in this order: the folder of attune's own Python package (if this library
/// is part of it), those of $VIRTUAL_ENV, the user's (pip install --user), the system's.
std::vector<std::string> sitePackages();

} // namespace attune
