# epiq_install.cmake: what `cmake --install` writes: header, libraries, command and its data, licence, and how to find
# the library.
# SPDX-License-Identifier: Apache-2.0

include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/epiq)

install(FILES include/epiq/epiq.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/epiq)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(TARGETS epiq epiq_static EXPORT epiq_targets)
if(EPIQ_TRT)
    install(TARGETS epiq_trt EXPORT epiq_targets # a module: epiq::trt says where it is
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    set(pc_trt "\ntrt_plugin=\${libdir}/libepiq_trt.so")
endif()
if(EPIQ_TOOLS)
    install(TARGETS epiq_command)
    install(DIRECTORY data/ DESTINATION ${CMAKE_INSTALL_DATADIR}/epiq/data) # what `epiq demo` shows
endif()

# find_package(epiq)
install(EXPORT epiq_targets NAMESPACE epiq:: FILE epiq-targets.cmake DESTINATION ${package_dir})
configure_package_config_file(cmake/epiq-config.cmake.in epiq-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(epiq-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES
    ${PROJECT_BINARY_DIR}/epiq-config.cmake
    ${PROJECT_BINARY_DIR}/epiq-config-version.cmake
    DESTINATION ${package_dir})

# pkg-config epiq. The prefix is found from the place of the file, so that an installed tree may be moved.
set(pc_libdir ${CMAKE_INSTALL_FULL_LIBDIR})
set(pc_includedir ${CMAKE_INSTALL_FULL_INCLUDEDIR})
set(pc_prefix ${CMAKE_INSTALL_PREFIX})
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" AND NOT IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
    file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
    string(REGEX REPLACE "/$" "" prefix_from_pc "${prefix_from_pc}")
    set(pc_prefix "\${pcfiledir}/${prefix_from_pc}")
    set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
    set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(cmake/epiq.pc.in epiq.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/epiq.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
