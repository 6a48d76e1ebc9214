"builtin.module"() <{sym_name = "jit_network"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4x8xf32>) -> (tensor<4x5xf32>, tensor<4x5x4xf32>, tensor<4xi32>, tensor<4x20xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}, {jax.result_info = "result[3]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg14: tensor<4x8xf32>):
    %53 = "stablehlo.constant"() <{value = dense<"0xE61E01BF9531053F8CD018BF2686C33F6189AC3E6FC2AB3E701B5FBFA5382D3E3C8A88BE2D20D6BF24808A3FE9A309BFEEBE2E3F622FE8BD1489873E6347A3BFB2370FBF5ACF02BE16F6013DFC992C3FD194DB3EF7E55FBF7E15B93E8A3CB33E86B4FABE29EC03BFB66138BD56B977BF14CBC4BD1A470ABF446122BF172BD8BC82CECE3E0B23273F8F239ABDEA6DC23E67C101BF0D5093BEACDA83BD1461623F0C8330BF2838E33E13CB83BE06592D3F7EA12CBFBA783F3F83CEA93E286A803F80BAEB3EC49902BF8E80D9BEF9AE1DBFAEC62EBF82BB163F74778EBC9AEB8CBF12C9B4BEE4C691BE769A28BF427C13BDB422C53C7F49E2BDCAF837BF3AC8FDBDC9BDB53E46752C3F880949BF74C71E3F32713C3FA2B0FB3DCF1E02BF6877793FA483EABE6C34E23E1EE681BFE5CC35BFA62C6BBFE8C6F3BB62C117BF7AFF9DBF6258B53D0B9813BE76B839BED9518BBF7C9B5D3DC3950DBFFAA508BF4047D7BE98D6E63FEACA473F3A0EB23EE805CB3E30B906BF702242BFECFDF5BE7EEF92BF0417B03EDEAA733EEAE7363D10C565BFD2B542BF78AA0BBF8FD4B63E432B3EBF12C24BBDB5AC773FFE67953F9D8FE13E6050D0BE9A7232BEC4C8683E666773BFEC846ABE4219B8BE82CE97BDB983513FDC78523FD27D543EFCBDBE3E008AEC3DB6A044BFD53585BF0A7C4CBF1F399C3E6F7B81BF62E2EABE73D3FDBE6658493F06C884BE1B389C3E966BFA3E1E5A4DBEA3D965BF8CB239BFCD6FE33D8AC073BF71230FBFDBB659BF90A9DA3E2E5E663F4573C5BFFC6688BEBE6F133E84B613BFA489CB3D3FBA583F391C0BBE12A5243F7CCF443EF67B1E3F10C1313D482614BE792B1B3F6A3C12BF4A48D0BD7ED9B4BBBECA81BF191B0C3F7C9263BF7E6C983F"> : tensor<8x20xf32>}> : () -> tensor<8x20xf32>
    %54 = "stablehlo.constant"() <{value = dense<[[0.163783729, 0.103526242, -0.248158365, -0.979380846], [-2.08861566, -0.0348947272, -1.39114296, 0.670141816], [0.803514122, -0.555808604, -1.16572869, -0.17088072], [1.03168941, 0.0903394669, -0.133420795, 0.24050881], [-1.38234448, 0.156654984, 0.681741834, -1.75090468], [-3.247390e-01, -0.0920797511, 0.637651801, 0.685130059], [-0.336498737, 0.185505167, 1.24782646, -0.586996317], [1.50113738, 0.00940334983, 0.910626888, 0.178246349], [1.6338979, -1.33730185, -1.27542543, 1.40816641], [-1.76424801, 0.885774731, -2.19421554, -1.7634486], [0.403473049, 2.0024631, -1.256530e+00, 0.107265323], [0.792297184, 0.333430916, 1.40941739, 0.631852686], [-0.336425781, -1.89862037, 0.44949308, 0.305502832], [-1.7898438, 1.79609013, 1.34558189, 0.105857641], [-1.23950374, -0.673256159, -0.796955525, -1.23951685], [0.385637403, 1.57553244, 0.630959808, -0.769778847], [1.7917558, -0.124447703, -1.44358504, 1.7161082], [0.528879106, -1.50513816, 0.893968939, -0.963202297], [0.179709822, 0.662633955, -0.2759839, 2.40872455], [-0.601277828, 1.52135229, -0.23713696, 0.593736768]]> : tensor<20x4xf32>}> : () -> tensor<20x4xf32>
    %55 = "stablehlo.dot_general"(%arg14, %53) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<4x8xf32>, tensor<8x20xf32>) -> tensor<4x20xf32>
    %56:2 = "chlo.top_k"(%55) <{k = 5 : i64}> : (tensor<4x20xf32>) -> (tensor<4x5xf32>, tensor<4x5xi32>)
    %57 = "func.call"(%55) <{callee = @argsort}> : (tensor<4x20xf32>) -> tensor<4x20xi32>
    %58 = "func.call"(%55, %57) <{callee = @take_along_axis}> : (tensor<4x20xf32>, tensor<4x20xi32>) -> tensor<4x20xf32>
    %59 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %60 = "stablehlo.broadcast_in_dim"(%59) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<4x5xi32>
    %61 = "stablehlo.compare"(%56#1, %60) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<4x5xi32>, tensor<4x5xi32>) -> tensor<4x5xi1>
    %62 = "stablehlo.constant"() <{value = dense<20> : tensor<i32>}> : () -> tensor<i32>
    %63 = "stablehlo.broadcast_in_dim"(%62) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<4x5xi32>
    %64 = "stablehlo.add"(%56#1, %63) : (tensor<4x5xi32>, tensor<4x5xi32>) -> tensor<4x5xi32>
    %65 = "stablehlo.select"(%61, %64, %56#1) : (tensor<4x5xi1>, tensor<4x5xi32>, tensor<4x5xi32>) -> tensor<4x5xi32>
    %66 = "stablehlo.broadcast_in_dim"(%65) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x5xi32>) -> tensor<4x5x1xi32>
    %67 = "stablehlo.gather"(%54, %66) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4>}> : (tensor<20x4xf32>, tensor<4x5x1xi32>) -> tensor<4x5x4xf32>
    %68 = "stablehlo.broadcast_in_dim"(%56#0) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x5xf32>) -> tensor<4x5x1xf32>
    %69 = "stablehlo.broadcast_in_dim"(%68) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<4x5x1xf32>) -> tensor<4x5x4xf32>
    %70 = "stablehlo.multiply"(%67, %69) : (tensor<4x5x4xf32>, tensor<4x5x4xf32>) -> tensor<4x5x4xf32>
    %71 = "func.call"(%55) <{callee = @argmax}> : (tensor<4x20xf32>) -> tensor<4xi32>
    "func.return"(%56#0, %70, %71, %58) : (tensor<4x5xf32>, tensor<4x5x4xf32>, tensor<4xi32>, tensor<4x20xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4x20xf32>) -> tensor<4x20xi32>, res_attrs = [{}], sym_name = "argsort", sym_visibility = "private"}> ({
  ^bb0(%arg9: tensor<4x20xf32>):
    %36 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<4x20xi32>
    %37:2 = "stablehlo.sort"(%arg9, %36) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg10: tensor<f32>, %arg11: tensor<f32>, %arg12: tensor<i32>, %arg13: tensor<i32>):
      %38 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
      %39 = "stablehlo.compare"(%arg10, %38) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %40 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
      %41 = "stablehlo.select"(%39, %40, %arg10) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %42 = "stablehlo.compare"(%arg10, %arg10) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %43 = "stablehlo.constant"() <{value = dense<0x7FC00000> : tensor<f32>}> : () -> tensor<f32>
      %44 = "stablehlo.select"(%42, %43, %41) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %45 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
      %46 = "stablehlo.compare"(%arg11, %45) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %47 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
      %48 = "stablehlo.select"(%46, %47, %arg11) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %49 = "stablehlo.compare"(%arg11, %arg11) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %50 = "stablehlo.constant"() <{value = dense<0x7FC00000> : tensor<f32>}> : () -> tensor<f32>
      %51 = "stablehlo.select"(%49, %50, %48) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %52 = "stablehlo.compare"(%44, %51) <{compare_type = #stablehlo<comparison_type TOTALORDER>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
      "stablehlo.return"(%52) : (tensor<i1>) -> ()
    }) : (tensor<4x20xf32>, tensor<4x20xi32>) -> (tensor<4x20xf32>, tensor<4x20xi32>)
    "func.return"(%37#1) : (tensor<4x20xi32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<4x20xf32>, tensor<4x20xi32>) -> tensor<4x20xf32>, res_attrs = [{}], sym_name = "take_along_axis", sym_visibility = "private"}> ({
  ^bb0(%arg5: tensor<4x20xf32>, %arg6: tensor<4x20xi32>):
    %13 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %14 = "stablehlo.broadcast_in_dim"(%13) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<4x20xi32>
    %15 = "stablehlo.compare"(%arg6, %14) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<4x20xi32>, tensor<4x20xi32>) -> tensor<4x20xi1>
    %16 = "stablehlo.constant"() <{value = dense<20> : tensor<i32>}> : () -> tensor<i32>
    %17 = "stablehlo.broadcast_in_dim"(%16) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<4x20xi32>
    %18 = "stablehlo.add"(%arg6, %17) : (tensor<4x20xi32>, tensor<4x20xi32>) -> tensor<4x20xi32>
    %19 = "stablehlo.select"(%15, %18, %arg6) : (tensor<4x20xi1>, tensor<4x20xi32>, tensor<4x20xi32>) -> tensor<4x20xi32>
    %20 = "stablehlo.reshape"(%19) : (tensor<4x20xi32>) -> tensor<4x20x1xi32>
    %21 = "stablehlo.constant"() <{value = dense<19> : tensor<1xi32>}> : () -> tensor<1xi32>
    %22 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %23 = "stablehlo.broadcast_in_dim"(%22) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<4x20x1xi32>
    %24 = "stablehlo.compare"(%20, %23) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction GE>}> : (tensor<4x20x1xi32>, tensor<4x20x1xi32>) -> tensor<4x20x1xi1>
    %25 = "stablehlo.broadcast_in_dim"(%21) <{broadcast_dimensions = array<i64: 2>}> : (tensor<1xi32>) -> tensor<1x1x1xi32>
    %26 = "stablehlo.broadcast_in_dim"(%25) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<1x1x1xi32>) -> tensor<4x20x1xi32>
    %27 = "stablehlo.compare"(%20, %26) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LE>}> : (tensor<4x20x1xi32>, tensor<4x20x1xi32>) -> tensor<4x20x1xi1>
    %28 = "stablehlo.and"(%24, %27) : (tensor<4x20x1xi1>, tensor<4x20x1xi1>) -> tensor<4x20x1xi1>
    %29 = "stablehlo.constant"() <{value = dense<true> : tensor<i1>}> : () -> tensor<i1>
    %30 = "stablehlo.reduce"(%28, %29) <{dimensions = array<i64: 2>}> ({
    ^bb0(%arg7: tensor<i1>, %arg8: tensor<i1>):
      %35 = "stablehlo.and"(%arg7, %arg8) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%35) : (tensor<i1>) -> ()
    }) : (tensor<4x20x1xi1>, tensor<i1>) -> tensor<4x20xi1>
    %31 = "stablehlo.gather"(%arg5, %20) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<4x20xf32>, tensor<4x20x1xi32>) -> tensor<4x20xf32>
    %32 = "stablehlo.constant"() <{value = dense<0x7FC00000> : tensor<f32>}> : () -> tensor<f32>
    %33 = "stablehlo.broadcast_in_dim"(%32) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x20xf32>
    %34 = "stablehlo.select"(%30, %31, %33) : (tensor<4x20xi1>, tensor<4x20xf32>, tensor<4x20xf32>) -> tensor<4x20xf32>
    "func.return"(%34) : (tensor<4x20xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<4x20xf32>) -> tensor<4xi32>, sym_name = "argmax", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<4x20xf32>):
    %0 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<4x20xi32>
    %1 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %2 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %3:2 = "stablehlo.reduce"(%arg0, %0, %1, %2) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<i32>, %arg3: tensor<f32>, %arg4: tensor<i32>):
      %4 = "stablehlo.compare"(%arg1, %arg3) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %5 = "stablehlo.compare"(%arg1, %arg1) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %6 = "stablehlo.or"(%4, %5) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %7 = "stablehlo.compare"(%arg1, %arg3) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %8 = "stablehlo.compare"(%arg2, %arg4) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %9 = "stablehlo.and"(%7, %8) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %10 = "stablehlo.or"(%6, %9) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %11 = "stablehlo.select"(%6, %arg1, %arg3) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %12 = "stablehlo.select"(%10, %arg2, %arg4) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%11, %12) : (tensor<f32>, tensor<i32>) -> ()
    }) : (tensor<4x20xf32>, tensor<4x20xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
    "func.return"(%3#1) : (tensor<4xi32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
